// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// numbered is packet i of a connection, of a length that varies.
func numbered(i int) []byte {
	return append([]byte(fmt.Sprintf("%08d", i)), filled(1400-i%7, byte(i))...)
}

// queued is how many bytes wait for a connection's socket.
func queued(c *Conn) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue.len()
}

// stuff sends numbered records until no more are taken, and returns how many were.
func stuff(t *testing.T, c *Conn) (taken int) {
	t.Helper()
	for {
		n := c.SendFrames(framed(numbered(taken), numbered(taken+1), numbered(taken+2)))
		if taken += n; n < 3 {
			return taken
		}
		if taken > 1e6 {
			t.Fatal("a connection that is not read takes everything")
		}
	}
}

// A reader that stands still costs bounded memory and nobody else's time; what
// was taken arrives whole and in order when it reads again.
func TestSlowReader(t *testing.T) {
	b := started(t, Config{Workers: 1, SndBuf: 65536, Queue: 100_000, Reserve: 10_000})
	slow, s := b.dial()
	quick, q := b.dial()
	q.echo.Store(true)
	taken := stuff(t, s.conn)
	if n := queued(s.conn); n > 90_000 || n < 85_000 {
		t.Errorf("%d bytes wait", n)
	}
	// Control packets have room left, but not without end.
	control := 0
	for s.conn.SendPacket(filled(1000, 1)) {
		control++
	}
	if control < 9 || control > 14 {
		t.Errorf("%d control packets taken", control)
	}
	if n := queued(s.conn); n > 100_000 {
		t.Errorf("%d bytes wait", n)
	}
	for i := range 100 {
		b.write(quick, framed(numbered(i)))
		if got := next(t, quick); !bytes.Equal(got, numbered(i)) {
			t.Fatalf("echo %d differs", i)
		}
	}
	if len(q.got()) != 100 {
		t.Errorf("%d packets", len(q.got()))
	}
	for i := range taken {
		if got := next(t, slow); !bytes.Equal(got, numbered(i)) {
			t.Fatalf("record %d of %d differs", i, taken)
		}
	}
	for range control {
		if got := next(t, slow); !bytes.Equal(got, filled(1000, 1)) {
			t.Fatal("control packet differs")
		}
	}
	// It is as good as new.
	eventually(t, "nothing waits", func() bool {
		s.conn.mu.Lock()
		defer s.conn.mu.Unlock()
		return s.conn.queue.len() == 0 && !s.conn.waiting
	})
	if n := s.conn.SendFrames(framed(numbered(1))); n != 1 || !bytes.Equal(next(t, slow), numbered(1)) {
		t.Error("nothing is taken any more")
	}
}

// The memory of a queue and of a packet that was not whole is given back.
func TestMemoryIsGivenBack(t *testing.T) {
	b := started(t, Config{Workers: 1, SndBuf: 65536})
	c, r := b.dial()
	b.write(c, framed(filled(3000, 1))[:2000])
	taken := stuff(t, r.conn)
	b.write(c, framed(filled(3000, 1))[2000:])
	for range taken {
		next(t, c)
	}
	eventually(t, "the packet has arrived", func() bool { return len(r.got()) == 1 })
	eventually(t, "the queue's memory is given back", func() bool {
		r.conn.mu.Lock()
		defer r.conn.mu.Unlock()
		return r.conn.queue.buf == nil
	})
	b.l.Stop()
	if r.conn.partial != nil {
		t.Error("the memory of half a packet is kept")
	}
}

// What was queued before Close arrives, and then the end, though there is input
// that nobody reads any more.
func TestCloseDelivers(t *testing.T) {
	b := started(t, Config{SndBuf: 65536})
	c, r := b.dial()
	taken := stuff(t, r.conn)
	goodbye := []byte("goodbye")
	if !r.conn.SendPacket(goodbye) {
		t.Fatal("no room")
	}
	r.conn.Close()
	r.conn.Close()
	if r.conn.SendPacket(goodbye) || r.conn.SendFrames(framed(goodbye)) != 0 {
		t.Error("a connection that was closed takes packets")
	}
	b.write(c, framed(filled(1000, 1), filled(1000, 2)))
	for i := range taken {
		if got := next(t, c); !bytes.Equal(got, numbered(i)) {
			t.Fatalf("record %d of %d differs", i, taken)
		}
	}
	if got := next(t, c); !bytes.Equal(got, goodbye) {
		t.Errorf("%q", got)
	}
	if got := next(t, c); got != nil {
		t.Errorf("%d bytes behind the end", len(got))
	}
	c.Close()
	r.wantClosed(ErrClosed)
	if len(r.got()) != 0 {
		t.Error("packets were received on a closed connection")
	}
}

// An end that reads nothing, and one that reads but never closes, are not waited
// for without end.
func TestCloseEnds(t *testing.T) {
	b := newBed(t, Config{SndBuf: 65536})
	b.l.linger = time.Millisecond
	b.l.Start(b)
	_, deaf := b.dial()
	stuff(t, deaf.conn)
	deaf.conn.Close()
	_, idle := b.dial()
	idle.conn.Close()
	deaf.wantClosed(ErrClosed)
	idle.wantClosed(ErrClosed)
}

// A handler may answer before the connection is served, and close it.
type greeter struct{ *bed }

func (g greeter) Opened(c *Conn) Receiver {
	r := g.bed.Opened(c)
	c.SendPacket([]byte("hello"))
	c.Close()
	return r
}

func TestSendingFromOpened(t *testing.T) {
	b := newBed(t, Config{})
	b.l.Start(greeter{b})
	c := b.connect()
	if got := next(t, c); string(got) != "hello" {
		t.Errorf("%q", got)
	}
	if next(t, c) != nil {
		t.Error("not closed")
	}
}

func TestPacketLengths(t *testing.T) {
	b := started(t, Config{})
	c, r := b.dial()
	for n, want := range map[int]bool{0: false, MaxPacket + 1: false, MaxPacket: true} {
		if got := r.conn.SendPacket(make([]byte, n)); got != want {
			t.Errorf("%d bytes: %v", n, got)
		}
	}
	if got := next(t, c); len(got) != MaxPacket {
		t.Errorf("%d bytes", len(got))
	}
}

// Many senders on each of many connections, some of which end meanwhile.
func TestManySendersAtOnce(t *testing.T) {
	b := started(t, Config{SndBuf: 65536, Workers: 3})
	var all sync.WaitGroup
	for k := range 12 {
		c, r := b.dial()
		r.conn.Proven()
		dies := k%3 == 0
		for sender := range byte(3) {
			all.Go(func() {
				i := 0
				for end := time.Now().Add(patience); i < 2000 && time.Now().Before(end); {
					p := append([]byte{sender, byte(i >> 8), byte(i)}, filled(i%1500, sender)...)
					if sender == 0 && r.conn.SendPacket(p) || sender != 0 && r.conn.SendFrames(framed(p)) == 1 {
						i++
					} else if dies && len(r.whys()) > 0 {
						return
					}
				}
			})
		}
		all.Go(func() {
			if dies {
				for range 100 {
					next(t, c)
				}
				c.Close()
				return
			}
			checkSenders(t, c, 3, 2000)
		})
	}
	all.Wait()
}

// checkSenders reads what senders have sent, each in its own order.
func checkSenders(t *testing.T, c net.Conn, senders, count int) {
	at := make([]int, senders)
	for range senders * count {
		p := next(t, c)
		if len(p) < 3 {
			t.Errorf("packet of %d bytes", len(p))
			return
		}
		s := p[0]
		if i := int(p[1])<<8 | int(p[2]); i != at[s] {
			t.Errorf("packet %d of sender %d, want %d", i, s, at[s])
			return
		}
		if !bytes.Equal(p[3:], filled(at[s]%1500, s)) {
			t.Errorf("packet %d of sender %d differs", at[s], s)
			return
		}
		at[s]++
	}
}

// Random streams in both directions through one worker.
func TestEcho(t *testing.T) {
	b := started(t, Config{Workers: 1})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	for k := range uint64(5) {
		c, r := b.dial()
		r.echo.Store(true)
		window := make(chan struct{}, 60) // what is on its way fits the queue
		sizes := func() *rand.Rand { return rand.New(rand.NewPCG(seed, k)) }
		all.Go(func() {
			r := sizes()
			for i := range 500 {
				window <- struct{}{}
				if _, err := c.Write(framed(filled(1+r.IntN(3000), byte(i)))); err != nil {
					t.Error(err)
					return
				}
			}
		})
		all.Go(func() {
			r := sizes()
			for i := range 500 {
				if got := next(t, c); !bytes.Equal(got, filled(1+r.IntN(3000), byte(i))) {
					t.Errorf("echo %d differs", i)
					return
				}
				<-window
			}
		})
	}
	all.Wait()
}
