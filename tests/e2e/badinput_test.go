// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

const (
	injectorPort = 5000
	sinkPort     = 9000
)

// injector is a peer of gateway A that lives in namespace B and sends what it likes.
type injector struct {
	*session
	wire   *wire
	src    netip.AddrPort
	dst    netip.AddrPort
	inner  netip.AddrPort // source of inner packets
	sink   *sink
	number uint64 // of the next payload
}

// inject makes peer `id` of gateway g, whose other end is an injector.
func (d *bed) inject(g *gateway, id uint32, outer netip.Addr, inner netip.Addr, to *sink) *injector {
	d.t.Helper()
	remote := netip.AddrPortFrom(outer, injectorPort)
	local := outerA4
	if outer.Is6() {
		local = outerA6
	}
	peer := fmt.Sprint(id)
	g.do("peer", "add", peer, "--remote", remote.String(), "--route", inner.String())
	key := newKey(d.t)
	g.do("key", "add", peer, "--key-id", "2", "--cipher", "AES-256-GCM", "--key-file", key, "--role", "server")
	return &injector{session: newSession(d.t, key, "AES-256-GCM", statickey.Client, id, 2),
		wire: newWire(d.t, d.b, d.a, 0), src: remote, dst: netip.AddrPortFrom(local, port),
		inner: netip.AddrPortFrom(inner, 7000), sink: to}
}

// payload is the inner packet of the next number.
func (x *injector) payload() []byte {
	x.number++
	return udpPacket(x.inner, x.sink.addr, numbered(x.number-1, 100))
}

// good is a record that will be delivered.
func (x *injector) good() []byte { return x.record(x.payload()) }

// outer is an IP packet with a datagram to the listener.
func (x *injector) outer(payload []byte) []byte { return udpPacket(x.src, x.dst, payload) }

// frame is that in Ethernet.
func (x *injector) frame(payload []byte) []byte { return x.wire.ethernet(x.outer(payload)) }

// tally is what a gateway counted.
type tally struct {
	verdicts, drops               map[string]uint64
	delivered, keepalive, control uint64
}

func (g *gateway) tally() tally {
	g.t.Helper()
	s := g.status()
	out := tally{verdicts: map[string]uint64{}, drops: map[string]uint64{}, delivered: s.Totals.In.Delivered,
		keepalive: s.Totals.In.Keepalive, control: s.Totals.Control.Datagrams}
	for i := range s.NICs {
		for name, v := range s.NICs[i].Verdicts {
			out.verdicts[name] += v.Packets
		}
	}
	maps.Copy(out.drops, s.Totals.Drops)
	return out
}

// background are verdicts that the kernel's own traffic gets: neighbour
// discovery and multicast reports. The gateway's TUN makes no_route.
var background = map[string]bool{"not_ip": true, "not_udp": true, "ext_header": true, "no_route": true}

func differences(what string, got, want map[string]uint64) (text string) {
	for name, n := range got {
		if w := want[name]; n != w && (!background[name] || n < w) {
			text += fmt.Sprintf(" %s %s: %d, want %d;", what, name, n, w)
		}
	}
	return text
}

func (t *tally) differs(want *tally) string {
	text := differences("verdict", t.verdicts, want.verdicts) + differences("drop", t.drops, want.drops)
	if t.delivered != want.delivered || t.keepalive != want.keepalive || t.control != want.control {
		text += fmt.Sprintf(" delivered, keepalives, control: %d %d %d, want %d %d %d",
			t.delivered, t.keepalive, t.control, want.delivered, want.keepalive, want.control)
	}
	return text
}

// fate is what has to become of a case's frames.
type fate struct {
	verdict   string // of the program, for every frame
	drop      string // of user space, for drops records; "": none
	drops     uint64
	delivered uint64
	keepalive uint64
	control   uint64
	// noStack: the kernel's stack drops what the program would steer, so on
	// the socket rung nothing arrives.
	noStack bool
}

// badCase is one kind of input.
type badCase struct {
	name   string
	frames func(x *injector) [][]byte
	fate   fate
}

func one(b []byte) [][]byte { return [][]byte{b} }

func edited(b []byte, edit func(b []byte)) []byte {
	edit(b)
	return b
}

// recordCases are odd records in good frames; both families.
var recordCases = []badCase{
	{"good", func(x *injector) [][]byte { return one(x.frame(x.good())) }, fate{verdict: "steered", delivered: 1}},
	{"forged tag", func(x *injector) [][]byte {
		return one(x.frame(edited(x.good(), func(b []byte) { b[8] ^= 1 })))
	}, fate{verdict: "steered", drop: "auth", drops: 1}},
	{"forged ciphertext", func(x *injector) [][]byte {
		return one(x.frame(edited(x.good(), func(b []byte) { b[len(b)-1] ^= 0x80 })))
	}, fate{verdict: "steered", drop: "auth", drops: 1}},
	{"forged packet id", func(x *injector) [][]byte {
		return one(x.frame(edited(x.good(), func(b []byte) { b[4] ^= 0x40 })))
	}, fate{verdict: "steered", drop: "auth", drops: 1}},
	{"truncated in the ciphertext", func(x *injector) [][]byte {
		r := x.good()
		return one(x.frame(r[:len(r)-1]))
	}, fate{verdict: "steered", drop: "auth", drops: 1}},
	{"no ciphertext", func(x *injector) [][]byte { return one(x.frame(x.good()[:24])) },
		fate{verdict: "short_record", drop: "bad_record", drops: 1}},
	{"truncated in the tag", func(x *injector) [][]byte { return one(x.frame(x.good()[:10])) },
		fate{verdict: "short_record", drop: "bad_record", drops: 1}},
	{"one byte", func(x *injector) [][]byte { return one(x.frame(x.good()[:1])) },
		fate{verdict: "short_record", drop: "bad_record", drops: 1}},
	{"empty datagram", func(x *injector) [][]byte { return one(x.frame(nil)) },
		fate{verdict: "not_data_v2", control: 1}},
	{"over-long", func(x *injector) [][]byte { return one(x.frame(append(x.good(), make([]byte, 300)...))) },
		fate{verdict: "steered", drop: "auth", drops: 1}},
	{"replayed", func(x *injector) [][]byte {
		r := x.good()
		return [][]byte{x.frame(r), x.frame(r), x.frame(r)}
	}, fate{verdict: "steered", delivered: 1, drop: "replay", drops: 2}},
	{"reordered", func(x *injector) [][]byte {
		r := [][]byte{x.frame(x.good()), x.frame(x.good()), x.frame(x.good()), x.frame(x.good())}
		return [][]byte{r[2], r[0], r[3], r[1]}
	}, fate{verdict: "steered", delivered: 4}},
	{"behind the window", func(x *injector) [][]byte {
		x.next += 5000
		late := x.seal(x.next-4999, x.payload())
		x.number--
		inside := x.seal(x.next-2047, x.payload())
		return [][]byte{x.frame(x.good()), x.frame(late), x.frame(inside)}
	}, fate{verdict: "steered", delivered: 2, drop: "replay", drops: 1}},
	{"packet id 0", func(x *injector) [][]byte { return one(x.frame(x.seal(0, []byte{0x45}))) },
		fate{verdict: "steered", drop: "replay", drops: 1}},
	{"unknown peer", func(x *injector) [][]byte {
		return one(x.frame(x.sealAs(record.Word(record.DataV2, x.keyID, 4711), 1, []byte{0x45})))
	}, fate{verdict: "unknown_peer", drop: "unknown_peer", drops: 1}},
	{"unknown key id", func(x *injector) [][]byte {
		return one(x.frame(x.sealAs(record.Word(record.DataV2, 5, x.peer), 1, []byte{0x45})))
	}, fate{verdict: "other_key", drop: "no_key", drops: 1}},
	{"unknown opcode", func(x *injector) [][]byte {
		return one(x.frame(x.sealAs(record.Word(31, x.keyID, x.peer), 1, []byte{0x45})))
	}, fate{verdict: "not_data_v2", control: 1}},
	{"control packet", func(x *injector) [][]byte {
		return one(x.frame(append([]byte{7 << 3}, make([]byte, 13)...)))
	}, fate{verdict: "not_data_v2", control: 1}},
	{"DATA_V1", func(x *injector) [][]byte { return one(x.frame(append([]byte{6 << 3}, make([]byte, 60)...))) },
		fate{verdict: "not_data_v2", control: 1}},
	{"spoofed inner source", func(x *injector) [][]byte {
		return one(x.frame(x.record(udpPacket(netip.MustParseAddrPort("10.9.0.99:1"), x.sink.addr, []byte("spoofed")))))
	}, fate{verdict: "steered", drop: "spoofed_source", drops: 1}},
	{"inner source of the other family", func(x *injector) [][]byte {
		return one(x.frame(x.record(udpPacket(netip.MustParseAddrPort("[fd00:9::99]:1"), netip.MustParseAddrPort("[fd00:9::1]:9"), []byte("spoofed")))))
	}, fate{verdict: "steered", drop: "spoofed_source", drops: 1}},
	{"inner not IP", func(x *injector) [][]byte { return one(x.frame(x.record(bytes.Repeat([]byte{0x11}, 80)))) },
		fate{verdict: "steered", drop: "bad_inner", drops: 1}},
	{"inner IPv4 cut off", func(x *injector) [][]byte { return one(x.frame(x.record(x.payload()[:12]))) },
		fate{verdict: "steered", drop: "bad_inner", drops: 1}},
	{"keepalive", func(x *injector) [][]byte { return one(x.frame(x.record(record.Keepalive[:]))) },
		fate{verdict: "steered", keepalive: 1}},
	{"nearly a keepalive", func(x *injector) [][]byte {
		return one(x.frame(x.record(append(bytes.Clone(record.Keepalive[:]), 0))))
	}, fate{verdict: "steered", drop: "bad_inner", drops: 1}},
	{"other port", func(x *injector) [][]byte {
		dst := netip.AddrPortFrom(x.dst.Addr(), 53)
		return one(x.wire.ethernet(udpPacket(x.src, dst, x.good())))
	}, fate{verdict: "not_listener"}},
	{"another host's address", func(x *injector) [][]byte {
		dst := netip.MustParseAddrPort("198.51.100.7:1194")
		if x.dst.Addr().Is6() {
			dst = netip.MustParseAddrPort("[2001:db8:7::7]:1194")
		}
		return one(x.wire.ethernet(udpPacket(x.src, dst, x.good())))
	}, fate{verdict: "not_listener"}},
	{"frame padded behind the datagram", func(x *injector) [][]byte {
		return one(append(x.frame(x.good()), make([]byte, 18)...))
	}, fate{verdict: "steered", delivered: 1}},
	{"UDP length short of the packet", func(x *injector) [][]byte {
		ip := x.outer(x.good())
		at := len(ip) - int(binary.BigEndian.Uint16(udpOf(ip)[4:]))
		binary.BigEndian.PutUint16(ip[at+4:], uint16(len(ip)-at-9))
		fixUDPChecksum(ip, at)
		return one(x.wire.ethernet(ip))
	}, fate{verdict: "udp_length", drop: "auth", drops: 1}},
	{"UDP length beyond the packet", func(x *injector) [][]byte {
		ip := x.outer(x.good())
		udp := udpOf(ip)
		binary.BigEndian.PutUint16(udp[4:], binary.BigEndian.Uint16(udp[4:])+4)
		return one(x.wire.ethernet(ip))
	}, fate{verdict: "udp_length"}},
	{"IP length beyond the frame", func(x *injector) [][]byte {
		f := x.frame(x.good())
		return one(f[:len(f)-3])
	}, fate{verdict: "udp_length"}},
	{"headers cut off", func(x *injector) [][]byte { return one(x.frame(x.good())[:30]) }, fate{verdict: "malformed"}},
	{"priority tag", func(x *injector) [][]byte { return one(x.wire.ethernet(x.outer(x.good()), 0x81000000)) },
		fate{verdict: "steered", delivered: 1}},
	{"two VLAN tags", func(x *injector) [][]byte {
		return one(x.wire.ethernet(x.outer(x.good()), 0x88a80005, 0x81000007))
	}, fate{verdict: "vlan_depth"}},
	{"UDP checksum wrong", func(x *injector) [][]byte {
		// The tag covers the record, so the program does not look at it; the stack does.
		return one(x.wire.ethernet(edited(x.outer(x.good()), func(ip []byte) { udpOf(ip)[7] ^= 1 })))
	}, fate{verdict: "steered", delivered: 1, noStack: true}},
}

// ip4Cases are about IPv4's header.
var ip4Cases = []badCase{
	{"UDP checksum 0", func(x *injector) [][]byte {
		return one(x.wire.ethernet(edited(x.outer(x.good()), func(ip []byte) { clear(udpOf(ip)[6:8]) })))
	}, fate{verdict: "steered", delivered: 1}},
	{"IPv4 checksum wrong", func(x *injector) [][]byte {
		return one(x.wire.ethernet(edited(x.outer(x.good()), func(ip []byte) { ip[10] ^= 1 })))
	}, fate{verdict: "ip_checksum"}},
	{"IPv4 options", func(x *injector) [][]byte {
		ip := x.outer(x.good())
		ip = append(append(bytes.Clone(ip[:20]), 1, 1, 1, 1), ip[20:]...)
		ip[0] = 0x46
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		checksum4(ip)
		return one(x.wire.ethernet(ip))
	}, fate{verdict: "ip_options", delivered: 1}},
	{"fragments", func(x *injector) [][]byte {
		ip := x.outer(x.good())
		body := ip[20:]
		return [][]byte{x.wire.ethernet(fragment4(ip, body[:64], 0x2000)), x.wire.ethernet(fragment4(ip, body[64:], 8))}
	}, fate{verdict: "fragment", delivered: 1}},
	{"tiny first fragment", func(x *injector) [][]byte {
		ip := x.outer(x.good())
		body := ip[20:]
		return [][]byte{x.wire.ethernet(fragment4(ip, body[:8], 0x2000)), x.wire.ethernet(fragment4(ip, body[8:], 1))}
	}, fate{verdict: "fragment", delivered: 1}},
	{"ARP", func(x *injector) [][]byte {
		return one(edited(x.wire.ethernet(make([]byte, 28)), func(b []byte) { b[13] = 6 }))
	}, fate{verdict: "not_ip"}},
	{"TCP", func(x *injector) [][]byte {
		return one(x.wire.ethernet(ipPacket(x.src.Addr(), x.dst.Addr(), 6, make([]byte, 20))))
	}, fate{verdict: "not_udp"}},
}

// ip6Cases are about IPv6's.
var ip6Cases = []badCase{
	{"UDP checksum 0", func(x *injector) [][]byte {
		return one(x.wire.ethernet(edited(x.outer(x.good()), func(ip []byte) { clear(udpOf(ip)[6:8]) })))
	}, fate{verdict: "udp_csum_zero6"}},
	{"destination options", func(x *injector) [][]byte { return one(x.wire.ethernet(extended6(x.outer(x.good()), 60))) },
		fate{verdict: "ext_header", delivered: 1}},
	{"hop-by-hop options", func(x *injector) [][]byte { return one(x.wire.ethernet(extended6(x.outer(x.good()), 0))) },
		fate{verdict: "ext_header", delivered: 1}},
	{"fragments", func(x *injector) [][]byte {
		ip := x.outer(x.good())
		body := ip[40:]
		return [][]byte{x.wire.ethernet(fragment6(ip, body[:64], 1)), x.wire.ethernet(fragment6(ip, body[64:], 64))}
	}, fate{verdict: "fragment", delivered: 1}},
}

// udpOf is the UDP header of an IP packet without options or extension headers.
func udpOf(ip []byte) []byte {
	if ip[0]>>4 == 6 {
		return ip[40:]
	}
	return ip[20:]
}

// fixUDPChecksum makes it right for what the UDP header at offset says is the datagram.
func fixUDPChecksum(ip []byte, at int) {
	src, dst := ip[12:16], ip[16:20]
	if ip[0]>>4 == 6 {
		src, dst = ip[8:24], ip[24:40]
	}
	n := int(binary.BigEndian.Uint16(ip[at+4:]))
	clear(ip[at+6 : at+8])
	sum := packet.Checksum(ip[at:at+n], packet.PseudoSum(src, dst, packet.ProtoUDP, n))
	binary.BigEndian.PutUint16(ip[at+6:], ^packet.Fold(sum))
}

func fragment4(ip, body []byte, flagsOffset uint16) []byte {
	b := append(bytes.Clone(ip[:20]), body...)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[4:], 0x1234)
	binary.BigEndian.PutUint16(b[6:], flagsOffset)
	checksum4(b)
	return b
}

// fragment6 takes the offset in bytes, with the more-fragments flag as its lowest bit.
func fragment6(ip, body []byte, offset uint16) []byte {
	header := []byte{packet.ProtoUDP, 0, byte(offset >> 8), byte(offset), 0, 0, 0x12, 0x34}
	return chain6(ip, 44, append(header, body...))
}

// extended6 puts 8 bytes of padding options in front of the UDP header.
func extended6(ip []byte, kind byte) []byte {
	header := []byte{packet.ProtoUDP, 0, 1, 4, 0, 0, 0, 0}
	return chain6(ip, kind, append(header, ip[40:]...))
}

func chain6(ip []byte, next byte, body []byte) []byte {
	b := append(bytes.Clone(ip[:40]), body...)
	binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
	b[6] = next
	return b
}

// TestBadInput sends each kind of odd input and compares every counter of the
// gateway with what has to become of it.
func TestBadInput(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "tc", "socket", "xdp-generic"} {
		for family, cases := range map[string][]badCase{"ipv4": ip4Cases, "ipv6": ip6Cases} {
			t.Run(rung+"/"+family, func(t *testing.T) {
				t.Parallel()
				d := newBed(t, testlab.Veth{WireLike: true})
				outer := outerB4
				if family == "ipv6" {
					outer = outerB6
				}
				g := d.runA(rung).start()
				to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
				x := d.inject(g, 7, outer, innerB4, to)
				want := g.tally()
				for _, c := range append(append([]badCase{}, recordCases...), cases...) {
					frames := c.frames(x)
					for _, f := range frames {
						x.wire.send(f)
					}
					want.add(&c.fate, uint64(len(frames)), rung)
					g.reaches(t, c.name, want)
					if s := g.status(); imbalance(s) != 0 {
						t.Fatalf("%s: %d records unaccounted for", c.name, imbalance(s))
					}
				}
				to.waitFor(func() bool { return to.total.Load() >= want.delivered })
				if n := to.total.Load(); n != want.delivered {
					t.Errorf("%d payloads arrived of %d packets delivered", n, want.delivered)
				}
				if to.damaged > 0 {
					t.Errorf("%d payloads are damaged", to.damaged)
				}
				for number, times := range to.times {
					if times != 1 {
						t.Errorf("payload %d came %d times", number, times)
					}
				}
				// The gateway is as good as new.
				if p := g.peer("7"); p.Remote != x.src {
					t.Errorf("the peer moved to %s", p.Remote)
				}
				g.stop()
			})
		}
	}
}

// add expects one more case.
func (t *tally) add(f *fate, frames uint64, rung string) {
	if rung != "socket" {
		t.verdicts[f.verdict] += frames
	} else if f.noStack {
		return
	}
	if f.drop != "" {
		t.drops[f.drop] += f.drops
	}
	t.delivered += f.delivered
	t.keepalive += f.keepalive
	t.control += f.control
}

// reaches waits until the gateway has counted exactly what is wanted.
func (g *gateway) reaches(t *testing.T, what string, want tally) {
	t.Helper()
	var text string
	for deadline := time.Now().Add(limit / 6); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		got := g.tally()
		if text = got.differs(&want); text == "" {
			return
		}
	}
	t.Fatalf("%s:%s", what, text)
}

// TestOCCExit says goodbye in the data channel.
func TestOCCExit(t *testing.T) {
	long(t)
	d := newBed(t, testlab.Veth{})
	g := d.runA("xdp").start()
	x := d.inject(g, 7, outerB4, innerB4, newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort)))
	e := g.watch()
	exit := []byte{0x28, 0x7f, 0x34, 0x6b, 0xd4, 0xef, 0x7a, 0x81, 0x2d, 0x56, 0xb8, 0xd3, 0xaf, 0xc5, 0x45, 0x9c, 6}
	x.wire.send(x.frame(x.record(exit)))
	list := e.wait(admin.EventOCCExit, 1)
	if len(list) != 1 || *list[0].Peer != 7 {
		t.Errorf("events %+v", list)
	}
	if s := g.settled(); s.Totals.Drops["occ_exit"] != 1 || s.Totals.In.Delivered != 0 {
		t.Errorf("totals %+v", s.Totals)
	}
	g.stop()
}
