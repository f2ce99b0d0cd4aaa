// SPDX-License-Identifier: Apache-2.0

package tun

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxPieces is how many pieces one write may have: UIO_MAXIOV of the kernel.
const MaxPieces = 1024

// Errors of Write that are not the kernel's.
var (
	ErrPieces     = errors.New("more pieces than one write takes")
	ErrShortWrite = errors.New("kernel took only a part of the packet")
)

// Writer writes to one queue. It has an iovec array of its own, so each worker
// needs its own Writer, while any number of Writers may use one queue at the
// same time: the kernel takes every write as one packet.
type Writer struct {
	fd  int
	iov [MaxPieces]unix.Iovec
}

// NewWriter returns a writer to queue number i, which must exist. It is valid
// until the device is closed.
func (d *Device) NewWriter(i int) *Writer { return &Writer{fd: d.queues[i].fd} }

// Write hands the pieces, one after the other, to the kernel as one packet:
// 10 bytes of virtio-net header, then the packet, cut anywhere, at most
// MaxPieces. Empty pieces are allowed. The kernel has copied the bytes when
// Write returns. The error is the kernel's errno and belongs to this packet
// alone: EINVAL for a header that it does not take (an offload it doesn't know),
// EIO while the device is down, EBADFD when it is deleted. It does not allocate.
func (w *Writer) Write(pieces [][]byte) error {
	if len(pieces) > MaxPieces {
		return ErrPieces
	}
	n, total := 0, 0
	for _, p := range pieces {
		if len(p) == 0 {
			continue
		}
		w.iov[n].Base = unsafe.SliceData(p)
		w.iov[n].SetLen(len(p))
		n++
		total += len(p)
	}
	for {
		wrote, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(w.fd), uintptr(unsafe.Pointer(&w.iov)), uintptr(n))
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return errno
		case int(wrote) != total:
			return ErrShortWrite
		}
		return nil
	}
}
