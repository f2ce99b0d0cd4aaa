// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"encoding/binary"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// etherType marks the tests' frames; IEEE 802 local experimental 1. Whatever
// else the kernel sends on the link passes by.
const etherType = 0x88b5

// veth is a veth pair, xa with the program and xb to send from, in a network
// namespace that has no name and ends with the test.
type veth struct {
	t       *testing.T
	ifindex int
	sender  int
	xsks    *ebpf.Map
	count   *ebpf.Map
}

// onVeth runs f with a pair of the given number of queues. The namespace belongs
// to the one thread that f runs on; sockets opened there work from any thread.
func onVeth(t *testing.T, queues int, f func(*veth)) {
	t.Helper()
	testlab.RequireRoot(t)
	testlab.RequireTool(t, "ip")
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: the thread ends with the goroutine, and the namespace
		// with the thread.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("unshare network namespace: %v", err)
			return
		}
		v := &veth{t: t}
		v.lay(queues)
		f(v)
	}()
	<-done
	if t.Failed() {
		t.FailNow()
	}
}

func (v *veth) lay(queues int) {
	q := strconv.Itoa(queues)
	v.command("ip", "link", "add", "xa", "numtxqueues", q, "numrxqueues", q, "type", "veth",
		"peer", "name", "xb", "numtxqueues", q, "numrxqueues", q)
	for _, name := range []string{"xa", "xb"} {
		// No link-local address, so no duplicate detection, no solicitations.
		v.command("ip", "link", "set", name, "addrgenmode", "none")
		v.command("ip", "link", "set", name, "up")
	}
	v.ifindex = v.index("xa")
	v.attach(queues)

	protocol := uint16(etherType>>8 | etherType&0xff<<8)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	v.check(err)
	v.t.Cleanup(func() { unix.Close(fd) })
	v.check(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: v.index("xb")}))
	v.sender = fd
}

// attach loads a program that redirects the tests' frames to the socket of
// their queue, counts them, and passes everything else.
func (v *veth) attach(queues int) {
	var err error
	v.xsks, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(queues)})
	v.check(err)
	v.t.Cleanup(func() { v.xsks.Close() })
	v.count, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	v.check(err)
	v.t.Cleanup(func() { v.count.Close() })
	const data, dataEnd, rxQueue = 0, 4, 16 // struct xdp_md
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:    ebpf.XDP,
		License: "Apache-2.0",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadMem(asm.R2, asm.R6, data, asm.Word),
			asm.LoadMem(asm.R3, asm.R6, dataEnd, asm.Word),
			asm.Mov.Reg(asm.R4, asm.R2),
			asm.Add.Imm(asm.R4, 14),
			asm.JGT.Reg(asm.R4, asm.R3, "pass"),
			asm.LoadMem(asm.R5, asm.R2, 12, asm.Half),
			asm.HostTo(asm.BE, asm.R5, asm.Half),
			asm.JNE.Imm(asm.R5, etherType, "pass"),
			asm.StoreImm(asm.RFP, -4, 0, asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, v.count.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "pass"),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.LoadMapPtr(asm.R1, v.xsks.FD()),
			asm.LoadMem(asm.R2, asm.R6, rxQueue, asm.Word),
			asm.Mov.Imm(asm.R3, 2), // XDP_PASS when the slot is empty
			asm.FnRedirectMap.Call(),
			asm.Return(),
			asm.Mov.Imm(asm.R0, 2).WithSymbol("pass"),
			asm.Return(),
		},
	})
	v.check(err)
	v.t.Cleanup(func() { program.Close() })
	attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: v.ifindex, Flags: link.XDPDriverMode})
	v.check(err)
	v.t.Cleanup(func() { attached.Close() })
}

// open opens a socket on xa and puts it into the map.
func (v *veth) open(c Config) *Socket {
	v.t.Helper()
	c.Ifindex = v.ifindex
	s, err := Open(c)
	v.check(err)
	v.t.Cleanup(func() { s.Close() })
	v.check(v.xsks.Put(uint32(c.Queue), uint32(s.FD())))
	return s
}

// frame returns the test frame of a number: size bytes, of which those behind
// the Ethernet header depend on the number only.
func frame(number uint32, size int) []byte {
	b := make([]byte, size)
	copy(b, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2})
	binary.BigEndian.PutUint16(b[12:], etherType)
	fillPayload(b, number)
	return b
}

func fillPayload(b []byte, number uint32) {
	for i := 14; i < len(b); i++ {
		b[i] = byte(uint32(i)*31 + number*7 + number>>8)
	}
	if len(b) >= 18 {
		binary.BigEndian.PutUint32(b[14:], number)
	}
}

// intact says whether b is the frame of that number.
func intact(b []byte, number uint32) bool {
	for i := 18; i < len(b); i++ {
		if b[i] != byte(uint32(i)*31+number*7+number>>8) {
			return false
		}
	}
	return binary.BigEndian.Uint16(b[12:]) == etherType && binary.BigEndian.Uint32(b[14:]) == number
}

// send sends the frame of a number from xb and returns it.
func (v *veth) send(number uint32, size int) []byte {
	b := frame(number, size)
	v.write(b)
	return b
}

func (v *veth) write(b []byte) {
	if _, err := unix.Write(v.sender, b); err != nil {
		v.t.Errorf("send frame: %v", err)
	}
}

// seen is how many of the tests' frames the program has redirected or passed.
func (v *veth) seen() uint64 {
	var n uint64
	v.check(v.count.Lookup(uint32(0), &n))
	return n
}

func (v *veth) index(name string) int {
	// Asked of ip, whose line begins "3: xa@xb: <": package net may answer from
	// a thread in another namespace, /sys from the mount's.
	number, _, _ := strings.Cut(v.command("ip", "-o", "link", "show", name), ":")
	n, err := strconv.Atoi(number)
	v.check(err)
	return n
}

func (v *veth) command(name string, arg ...string) string {
	v.t.Helper()
	out, err := exec.Command(name, arg...).CombinedOutput()
	if err != nil {
		v.t.Fatalf("%s %s: %v: %s", name, strings.Join(arg, " "), err, out)
	}
	return string(out)
}

func (v *veth) check(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}
