// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// segmentMessage is the control message that sets the UDP segment size.
func segmentMessage(size int) []byte {
	oob := make([]byte, unix.CmsgSpace(2))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
	header.Level, header.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	header.SetLen(unix.CmsgLen(2))
	*(*uint16)(unsafe.Pointer(&oob[unix.CmsgLen(0)])) = uint16(size)
	return oob
}
