// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Everything that needs package unsafe is in this file: the ring mappings and
// the socket options that x/sys has no typed calls for.

// setUmem registers area as the socket's packet memory. The kernel pins its
// pages until the socket is gone, which is a moment after close.
func setUmem(fd int, area []byte, chunkSize int) error {
	reg := unix.XDPUmemReg{
		Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(area)))),
		Len:  uint64(len(area)),
		Size: uint32(chunkSize),
	}
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// getsockopt fills value with the option's bytes and returns how many the
// kernel wrote: fewer than asked when its struct is an older, shorter one.
func getsockopt(fd, option int, value unsafe.Pointer, size uintptr) (int, error) {
	length := uint32(size)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option),
		uintptr(value), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(length), nil
}

func mmapOffsets(fd int) (unix.XDPMmapOffsets, error) {
	var offsets unix.XDPMmapOffsets
	n, err := getsockopt(fd, unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&offsets), unsafe.Sizeof(offsets))
	if err == nil && n != int(unsafe.Sizeof(offsets)) {
		// The struct without flag offsets is from kernels before 5.4, which
		// have no need_wakeup either.
		err = fmt.Errorf("%d bytes of offsets: %w", n, unix.EOPNOTSUPP)
	}
	return offsets, err
}

func xdpOptions(fd int) (uint32, error) {
	var flags uint32
	_, err := getsockopt(fd, unix.XDP_OPTIONS, unsafe.Pointer(&flags), unsafe.Sizeof(flags))
	return flags, err
}

// xdpStatistics leaves counters that an older kernel does not know at zero.
func xdpStatistics(fd int) (unix.XDPStatistics, error) {
	var stats unix.XDPStatistics
	_, err := getsockopt(fd, unix.XDP_STATISTICS, unsafe.Pointer(&stats), unsafe.Sizeof(stats))
	return stats, err
}

// mapRing maps the ring at a page offset of the socket: its indexes, then
// count entries of entrySize bytes.
func mapRing(fd int, pageOffset int64, at unix.XDPRingOffset, count, entrySize int) ([]byte, error) {
	return unix.Mmap(fd, pageOffset, int(at.Desc)+count*entrySize,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
}

// sharedRing lays a ring over mapped memory, which must outlive it.
func sharedRing(mem []byte, at unix.XDPRingOffset, count int) ring {
	base := unsafe.Pointer(unsafe.SliceData(mem))
	return ring{
		producer: (*uint32)(unsafe.Add(base, at.Producer)),
		consumer: (*uint32)(unsafe.Add(base, at.Consumer)),
		flags:    (*uint32)(unsafe.Add(base, at.Flags)),
		size:     uint32(count),
		mask:     uint32(count) - 1,
	}
}

func mapRxRing(fd int, at unix.XDPRingOffset, count int) (rxRing, []byte, error) {
	mem, err := mapRing(fd, unix.XDP_PGOFF_RX_RING, at, count, int(unsafe.Sizeof(unix.XDPDesc{})))
	if err != nil {
		return rxRing{}, nil, err
	}
	first := (*unix.XDPDesc)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem)), at.Desc))
	return rxRing{ring: sharedRing(mem, at, count), descs: unsafe.Slice(first, count)}, mem, nil
}

func mapFillRing(fd int, at unix.XDPRingOffset, count int) (fillRing, []byte, error) {
	mem, err := mapRing(fd, unix.XDP_UMEM_PGOFF_FILL_RING, at, count, 8)
	if err != nil {
		return fillRing{}, nil, err
	}
	first := (*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem)), at.Desc))
	return fillRing{ring: sharedRing(mem, at, count), addrs: unsafe.Slice(first, count)}, mem, nil
}
