// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolChannels is struct ethtool_channels.
type ethtoolChannels struct {
	Cmd                                         uint32
	MaxRx, MaxTx, MaxOther, MaxCombined         uint32
	RxCount, TxCount, OtherCount, CombinedCount uint32
}

// ethtoolStringCount is struct ethtool_sset_info with room for one set's length.
type ethtoolStringCount struct {
	Cmd, Reserved uint32
	Mask          uint64
	Len           uint32
	_             uint32
}

// ethtoolStrings is struct ethtool_gstrings with its data, ETH_GSTRING_LEN each.
type ethtoolStrings struct {
	Cmd, Set, Len uint32
	Strings       [maxFeatures][32]byte
}

// ethtoolGetFeatures is struct ethtool_gfeatures with its blocks.
type ethtoolGetFeatures struct {
	Cmd, Size uint32
	Blocks    [maxFeatures / 32]struct{ Available, Requested, Active, NeverChanged uint32 }
}

// ethtoolSetFeatures is struct ethtool_sfeatures with its blocks.
type ethtoolSetFeatures struct {
	Cmd, Size uint32
	Blocks    [maxFeatures / 32]struct{ Valid, Requested uint32 }
}

// ifreqData is struct ifreq with ifr_data: 40 bytes on 64-bit.
type ifreqData struct {
	Name [unix.IFNAMSIZ]byte
	Data unsafe.Pointer
	_    [16]byte
}

// ethtool runs one SIOCETHTOOL command on the link; request is one of the
// structs above, changed in place by the kernel.
func ethtool[T any](link string, request *T) error {
	if len(link) > MaxName {
		return fmt.Errorf("link name %q: %w", link, ErrNotFound)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open ioctl socket: %w", err)
	}
	defer unix.Close(fd)
	var pin runtime.Pinner
	pin.Pin(request)
	defer pin.Unpin()
	req := ifreqData{Data: unsafe.Pointer(request)}
	copy(req.Name[:], link)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return errno
	}
	return nil
}
