// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
)

// innerFile writes inner packets as a capture.
type innerFile struct {
	w   *pcapgo.Writer
	err error
}

// maxInner is the longest plaintext there can be: a UDP payload over IPv4.
const maxInner = 65507

func newInnerFile(w io.Writer) (*innerFile, error) {
	f := &innerFile{w: pcapgo.NewWriterNanos(w)}
	if err := f.w.WriteFileHeader(maxInner, layers.LinkTypeRaw); err != nil {
		return nil, fmt.Errorf("write inner packets: %w", err)
	}
	return f, nil
}

// write appends a packet. What is not IP would be read as garbage under this
// link type and is left out, as the TUN would refuse it.
func (f *innerFile) write(at time.Time, p []byte) {
	if _, ok := packet.ParseIP(p); !ok || f.err != nil {
		return
	}
	f.err = f.w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(p), Length: len(p)}, p)
}
