// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// pins is the folder of one device's maps and programs in a bpffs.
type pins struct {
	root string // the bpffs
	path string // <root>/ovpn-xdp/<gateway>/<device>
}

// pinPath is where the pins of a device belong. bpffs refuses dots in names.
func pinPath(root, gateway, device string) string {
	return filepath.Join(root, "ovpn-xdp", gateway, strings.ReplaceAll(device, ".", "_"))
}

// makePins makes an empty folder for the device's pins and removes what was
// pinned there before.
func makePins(root, gateway, device string) (*pins, error) {
	if err := ensureBPFFS(root); err != nil {
		return nil, err
	}
	p := &pins{root: root, path: pinPath(root, gateway, device)}
	if err := os.RemoveAll(p.path); err != nil {
		return nil, fmt.Errorf("remove stale pins: %w", err)
	}
	// Another gateway that ends may remove the empty parent between two steps.
	var err error
	for range 8 {
		if err = os.MkdirAll(p.path, 0o700); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make pin folder: %w", err)
	}
	return p, nil
}

// ensureBPFFS checks that the folder is on a bpffs. At the default place one is
// mounted if there is none, as bpftool and iproute2 do.
func ensureBPFFS(root string) error {
	is, err := isBPFFS(root)
	if err == nil && is {
		return nil
	}
	if root != DefaultPinDir {
		if err != nil {
			return fmt.Errorf("pin folder %s: %w; make it and mount a bpffs there: mount -t bpf bpf %s", root, err, root)
		}
		return fmt.Errorf("pin folder %s is not on a bpffs; mount one there: mount -t bpf bpf %s", root, root)
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", root, err)
	}
	if err := unix.Mount("bpf", root, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount bpffs at %s: %w; mount it beforehand or choose another folder with --pin-dir", root, explain(err))
	}
	return nil
}

func isBPFFS(path string) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return false, err
	}
	return fs.Type == unix.BPF_FS_MAGIC, nil
}

// add pins all maps under their names and all programs as prog_<name>. The
// loader's own map of constants stays unpinned.
func (p *pins) add(coll *ebpf.Collection) error {
	for name, m := range coll.Maps {
		if strings.HasPrefix(name, ".") {
			continue
		}
		if err := m.Pin(filepath.Join(p.path, name)); err != nil {
			return fmt.Errorf("pin map %s: %w", name, explain(err))
		}
	}
	for name, prog := range coll.Programs {
		if err := prog.Pin(filepath.Join(p.path, "prog_"+name)); err != nil {
			return fmt.Errorf("pin program %s: %w", name, explain(err))
		}
	}
	return nil
}

// remove unpins everything, and the parent folders that are empty then.
func (p *pins) remove() error {
	if err := os.RemoveAll(p.path); err != nil {
		return fmt.Errorf("remove pins: %w", err)
	}
	for dir := filepath.Dir(p.path); len(dir) > len(p.root); dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			break
		}
	}
	return nil
}
