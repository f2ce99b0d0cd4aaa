// SPDX-License-Identifier: Apache-2.0

// Package replay opens a recorded session offline, in both directions, through
// the code that opens live traffic. It needs a capture of the outer link and the
// session's keys, and no rights.
package replay

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// Options say what to replay.
type Options struct {
	Capture io.Reader
	Keys    *Keys
	// Inner takes a pcap file (LINKTYPE_RAW, nanoseconds) of the inner packets
	// of both directions in the order of their records; nil: none.
	Inner io.Writer
	// Batch and Prefetch are those of `run`.
	Batch, Prefetch int
}

// Result is what became of a capture. Its JSON has no other members.
type Result struct {
	// Control counts UDP datagrams on the server's port that are not DATA_V2.
	Control    uint64     `json:"control"`
	Directions Directions `json:"directions"`
	Version    int        `json:"version"`
	// Notes are for people: what in the capture could not be looked at.
	Notes []string `json:"-"`
}

// Directions are named after who sends.
type Directions struct {
	ClientToServer Direction `json:"client_to_server"`
	ServerToClient Direction `json:"server_to_client"`
}

// Direction counts DATA_V2 records and what became of each: Records =
// Opened + BadRecord + UnknownPeer + NoKey + Auth + Replay.
type Direction struct {
	Records uint64 `json:"records"`
	// Opened passed authentication and the replay check; Bytes and SHA256
	// cover their plaintexts in order of arrival, keepalives included.
	Opened      uint64 `json:"opened"`
	Bytes       uint64 `json:"bytes"`
	SHA256      string `json:"sha256"`
	Keepalive   uint64 `json:"keepalive"`
	BadRecord   uint64 `json:"bad_record"`
	UnknownPeer uint64 `json:"unknown_peer"`
	NoKey       uint64 `json:"no_key"`
	Auth        uint64 `json:"auth"`
	Replay      uint64 `json:"replay"`

	hash hash.Hash
}

// Version is that of the JSON.
const Version = 1

const (
	// burstTime keeps records of one burst, which are given one time, closer
	// together than any clock that the 30 s rule is used with.
	burstTime = time.Millisecond
	// slack is the room that opening in place needs behind a record.
	slack = record.TagLen
)

// Run replays a capture to its end. A capture that breaks off inside a packet
// is replayed up to there, which is noted.
func Run(o Options) (*Result, error) {
	c, err := openCapture(o.Capture)
	if err != nil {
		return nil, err
	}
	s := &session{port: o.Keys.ServerPort, result: Result{Version: Version}}
	if o.Inner != nil {
		if s.inner, err = newInnerFile(o.Inner); err != nil {
			return nil, err
		}
	}
	if s.c2s, err = newDirection(&o, o.Keys, false, &s.result.Directions.ClientToServer, s); err != nil {
		return nil, err
	}
	if s.s2c, err = newDirection(&o, o.Keys, true, &s.result.Directions.ServerToClient, s); err != nil {
		return nil, err
	}
	for {
		link, data, at, err := c.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errTruncated) {
			s.note("%v", err)
			break
		}
		if err != nil {
			return nil, err
		}
		frame, ok := appendEthernet(s.buffer.take(len(data)+etherLen+slack), link, data)
		if !ok {
			s.unknownLink++
			continue
		}
		s.frame(frame, at)
	}
	return s.finish()
}

// session is one replay under way.
type session struct {
	port     uint16
	c2s, s2c *direction
	// servers remembers, for flows with the server's port at both ends, which
	// end is the server.
	servers map[netip.AddrPort]bool

	// burst collects records of one direction, flow and table.
	current *direction
	buffer  buffer
	start   time.Time // of the capture
	clock   int64     // monotonic ns of the burst
	inner   *innerFile

	unknownLink uint64
	unparsed    uint64
	result      Result
}

// frame sorts one frame. Its capacity has slack.
func (s *session) frame(frame []byte, at time.Time) {
	flow, payload, ok := packet.ParseFrame(frame)
	if !ok {
		if mentionsUDP(frame, s.port) {
			s.unparsed++
		}
		return
	}
	if flow.Src.Port() != s.port && flow.Dst.Port() != s.port {
		return
	}
	if len(payload) == 0 || record.Opcode(payload[0]) != record.DataV2 {
		s.result.Control++
		s.learnServer(flow, payload)
		return
	}
	d := s.s2c
	if s.toServer(flow) {
		d = s.c2s
	}
	d.result.Records++
	if s.start.IsZero() {
		s.start = at
	}
	// One second, so that no time is 0; never backwards, whatever the file says.
	now := max(int64(at.Sub(s.start)+time.Second), s.clock)
	o := d.openerFor(payload)
	if s.current != nil && (s.current != d || !d.fits(o, flow, now)) || s.buffer.full() {
		s.flush()
	}
	s.current, s.clock = d, now
	d.add(o, flow, payload, at, now)
	s.buffer.keep()
}

// learnServer looks at handshakes between two ends with the same port.
func (s *session) learnServer(flow packet.Flow, payload []byte) {
	if flow.Src.Port() != flow.Dst.Port() {
		return
	}
	if len(payload) > 0 {
		switch record.Opcode(payload[0]) {
		case record.ControlHardResetClientV2, record.ControlHardResetClientV3:
			s.setServer(flow.Dst, flow.Src)
			return
		case record.ControlHardResetServerV2:
			s.setServer(flow.Src, flow.Dst)
			return
		}
	}
	s.toServer(flow)
}

func (s *session) setServer(server, client netip.AddrPort) {
	if s.servers == nil {
		s.servers = make(map[netip.AddrPort]bool)
	}
	s.servers[server], s.servers[client] = true, false
}

// toServer reports whether a datagram goes to the server: by its port, and
// where both ends have that, by who was seen to be the server, else to whom the
// first datagram went.
func (s *session) toServer(flow packet.Flow) bool {
	if flow.Src.Port() != flow.Dst.Port() {
		return flow.Dst.Port() == s.port
	}
	server, known := s.servers[flow.Dst]
	if !known {
		s.setServer(flow.Dst, flow.Src)
		return true
	}
	return server
}

func (s *session) flush() {
	if s.current != nil {
		s.current.flush()
		s.current = nil
	}
	s.buffer.reset()
}

func (s *session) note(format string, args ...any) {
	s.result.Notes = append(s.result.Notes, fmt.Sprintf(format, args...))
}

func (s *session) finish() (*Result, error) {
	s.flush()
	if s.unknownLink > 0 {
		s.note("%d packets of a link type that is not understood were left out", s.unknownLink)
	}
	if s.unparsed > 0 {
		s.note("%d packets of the port were left out: fragments, IP options, extension headers, or cut off by the capture", s.unparsed)
	}
	for _, d := range []*direction{s.c2s, s.s2c} {
		d.count()
		d.result.SHA256 = hex.EncodeToString(d.result.hash.Sum(nil))
	}
	if s.inner != nil && s.inner.err != nil {
		return nil, fmt.Errorf("write inner packets: %w", s.inner.err)
	}
	return &s.result, nil
}

// mentionsUDP reports whether a frame that could not be parsed looks like one
// of the port, so that it is worth a note.
func mentionsUDP(frame []byte, port uint16) bool {
	hi, lo := byte(port>>8), byte(port)
	at := func(i int) bool { return len(frame) > i+1 && frame[i] == hi && frame[i+1] == lo }
	// The UDP header behind an IPv4 header of the length it states, or IPv6.
	if len(frame) < etherLen+20 {
		return false
	}
	ip := etherLen
	if frame[12] == 0x81 && frame[13] == 0 {
		ip += 4
	}
	if len(frame) <= ip+9 {
		return false
	}
	switch frame[ip] >> 4 {
	case 4:
		udp := ip + int(frame[ip]&15)*4
		return frame[ip+9] == 17 && (frame[ip+6]&0x1f != 0 || frame[ip+7] != 0 || at(udp) || at(udp+2))
	case 6:
		return at(ip+40) || at(ip+42) || frame[ip+6] == 44
	}
	return false
}
