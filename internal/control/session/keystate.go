// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/tls"
	"fmt"
	"iter"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/reliable"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// stage is how far a key state has come.
type stage uint8

const (
	opening     stage = iota // waits for the peer's reset, or its ClientHello
	handshaking              // TLS
	exchanging               // key method messages
	exchanged                // both were written or read
)

// keyState is the negotiation of one key, and afterwards the control channel
// that belongs to it.
type keyState struct {
	id       uint8
	stage    stage
	acked    bool  // our key method message, and everything before it
	heard    bool  // a packet came from the peer
	before   uint8 // the newest key id when this one was chosen
	resend   bool  // a server wants the client's wrapped key with the next message
	deadline time.Time

	send reliable.Sender
	recv reliable.Receiver
	pipe pipe

	conn   *tls.Conn
	resume func() (struct{}, bool) // the handshake's coroutine; nil while there is none
	stop   func()
	err    error // the handshake's result

	received int            // bytes of the TLS stream until the end of the handshake
	parser   *keyex.Parser  // nil once the peer's message is complete
	hello    *keyex.Message // ours, until it is sent
	seed     *seed          // once both messages are known
	text     []byte         // a control message that isn't complete

	// The stream's bytes that were cut into messages so far; where in the
	// stream our key method message ends, and the id of the message in which
	// that is.
	cut, mark uint64
	markID    uint32
}

// written is where the stream ends that was written so far.
func (ks *keyState) written() uint64 { return ks.cut + uint64(len(ks.pipe.out)) }

// idle reports whether the peer has everything that was sent.
func (ks *keyState) idle() bool { return len(ks.pipe.out) == 0 && ks.send.Idle() }

// begin starts the TLS handshake; it stops at once, waiting for input.
func (ks *keyState) begin(role Role, cfg *tls.Config) {
	if !cfg.SessionTicketsDisabled || !cfg.DynamicRecordSizingDisabled {
		cfg = cfg.Clone()
		cfg.SessionTicketsDisabled = true
		cfg.DynamicRecordSizingDisabled = true
	}
	if role == Server {
		ks.conn = tls.Server(&ks.pipe, cfg)
	} else {
		ks.conn = tls.Client(&ks.pipe, cfg)
	}
	ks.resume, ks.stop = iter.Pull(func(yield func(struct{}) bool) {
		over := false // yield must not be called again once it has returned false
		ks.pipe.wait = func() bool {
			over = over || !yield(struct{}{})
			return !over
		}
		ks.err = ks.conn.Handshake()
	})
	ks.stage = handshaking
}

// handshake goes on with the TLS handshake until it is done or has used up all
// input. The key method message that follows comes from a client or from a
// server.
func (ks *keyState) handshake(fromClient bool) error {
	if _, waits := ks.resume(); waits {
		return nil
	}
	ks.resume, ks.stop, ks.pipe.wait = nil, nil, nil
	if ks.err != nil {
		return fmt.Errorf("negotiate tls: %w", ks.err)
	}
	ks.stage = exchanging
	ks.parser = keyex.NewParser(fromClient)
	return nil
}

// free ends the coroutine and drops the TLS connection without a word to the
// peer, as stock OpenVPN does.
func (ks *keyState) free() {
	if ks.stop != nil {
		ks.stop()
	}
	if ks.seed != nil {
		clear(ks.seed.preMaster[:])
	}
	*ks = keyState{id: ks.id}
}

// isReset reports whether packets with an opcode open a key state.
func isReset(opcode uint8) bool {
	switch opcode {
	case wire.ControlHardResetClientV2, wire.ControlHardResetServerV2,
		wire.ControlHardResetClientV3, wire.ControlSoftResetV1:
		return true
	}
	return false
}
