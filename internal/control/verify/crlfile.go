// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// settled is how long a file has to be unchanged when it is read, so that its
// times tell later changes: the clock of a file system can stand still for a tick
// of 10 ms, on some for a second or two.
const settled = 3 * time.Second

// maxCRL bounds the file's size in bytes; a million entries have 40 MB.
const maxCRL = 256 << 20

// crlFile is a revocation list on disk. Its file is looked at for every handshake
// and parsed again when it has changed. It may be used concurrently.
type crlFile struct {
	path string

	mu    sync.Mutex
	last  *revocations
	stamp crlStamp
}

// crlStamp tells versions of a file apart.
type crlStamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// readRevocations finds out at the start whether crl-verify can be used.
func (v *Verifier) readRevocations() error {
	o := &v.opt
	if o.ClientCert == None || o.CRL == "" && o.CRLData == nil {
		return nil
	}
	if !v.hasCA() && !o.CRLDir {
		return errors.New("crl-verify needs ca: without one nobody can have signed the list")
	}
	switch {
	case o.CRLDir:
	case o.CRLData != nil:
		r, err := parseCRL(o.CRLData)
		v.crl = &crlFile{last: r}
		return err
	default:
		v.crl = &crlFile{path: o.CRL}
	}
	_, err := v.revocations()
	return err
}

// revocations returns what is revoked at present; nil without crl-verify.
func (v *Verifier) revocations() (*revocations, error) {
	if v.opt.CRLDir && v.opt.CRL != "" {
		// A file that isn't there must not be taken for one in a folder that isn't there.
		d, err := os.Stat(v.opt.CRL)
		if err == nil && !d.IsDir() {
			err = fmt.Errorf("%s is no folder", v.opt.CRL)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCRL, err)
		}
		return &revocations{dir: v.opt.CRL}, nil
	}
	if v.crl == nil {
		return nil, nil
	}
	return v.crl.load()
}

// load returns the lists as the file has them now.
func (f *crlFile) load() (*revocations, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" {
		return f.last, nil
	}
	file, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO shall not hold us up
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCRL, err)
	}
	defer file.Close()
	stamp, err := stampOf(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCRL, err)
	}
	if f.last != nil && stamp == f.stamp {
		return f.last, nil
	}
	f.last = nil
	b, err := io.ReadAll(io.LimitReader(file, maxCRL+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCRL, err)
	}
	if len(b) > maxCRL {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrCRL, f.path, maxCRL)
	}
	r, err := parseCRL(b)
	if err != nil {
		return nil, err
	}
	if after, err := stampOf(file); err == nil && after == stamp && stamp.settled(time.Now()) {
		f.last, f.stamp = r, stamp
	}
	return r, nil
}

func stampOf(file *os.File) (crlStamp, error) {
	info, err := file.Stat()
	if err != nil {
		return crlStamp{}, err
	}
	if !info.Mode().IsRegular() {
		return crlStamp{}, fmt.Errorf("%s is no regular file", file.Name())
	}
	st := info.Sys().(*syscall.Stat_t)
	return crlStamp{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}, nil
}

func (s crlStamp) settled(now time.Time) bool {
	age := func(t syscall.Timespec) time.Duration { return now.Sub(time.Unix(t.Unix())) }
	return age(s.mtime) >= settled && age(s.ctime) >= settled
}
