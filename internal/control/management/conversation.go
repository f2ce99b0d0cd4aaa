// SPDX-License-Identifier: Apache-2.0

package management

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// maxLine is the most bytes of a command. OpenVPN's words have at most 255 bytes,
	// and a command 16 of them, but none needs more than two.
	maxLine = 1024
	// maxNotes is how many real-time lines wait for a client that is slow or is
	// being answered; with maxText, 1 MiB. More are counted and left out.
	maxNotes = 1024
	// writeTimeout is how long a client may take to read writeChunk bytes.
	writeTimeout = 10 * time.Second
	writeChunk   = 64 << 10
	// loginTimeout is how long a client may take for the password, so that whoever
	// does not know it cannot keep the interface from others.
	loginTimeout = 30 * time.Second
	// maxWrong is how many wrong passwords there may be in a conversation.
	maxWrong = 3
)

var (
	errQuit     = errors.New("quit")
	errPassword = errors.New("the password was wrong three times")
	errLogin    = errors.New("no password came in time")
)

// conversation is one connection. One goroutine runs it and is the only one that
// writes; another reads lines.
type conversation struct {
	srv  *Server
	conn net.Conn
	in   chan request
	done chan struct{} // closed when run returns

	// What other goroutines touch.
	notes  chan string
	lost   atomic.Int64 // notes that were left out
	states atomic.Bool  // state on

	tick  *time.Ticker // bytecount; nil: off
	err   error        // the first of a write
	quits bool
}

// request is one line, without its end.
type request struct {
	text string
	long bool // it had more than maxLine bytes; text is empty
}

func newConversation(s *Server, conn net.Conn) *conversation {
	return &conversation{srv: s, conn: conn, in: make(chan request), done: make(chan struct{}), notes: make(chan string, maxNotes)}
}

// run talks until one side has had enough. The error is nil when the client left or
// the server closes.
func (c *conversation) run() error {
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read()
	}()
	err := c.login()
	if err == nil {
		err = c.serve()
	}
	c.srv.cfg.Log.tell(nil)
	if c.tick != nil {
		c.tick.Stop()
	}
	close(c.done)
	c.conn.Close()
	<-read
	if errors.Is(err, errQuit) {
		return nil
	}
	return err
}

// read turns what comes in into requests; it ends with the connection.
func (c *conversation) read() {
	defer close(c.in)
	r := bufio.NewReaderSize(c.conn, maxLine+2) // CR and LF
	for {
		line, err := r.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = r.ReadSlice('\n')
		}
		if err != nil {
			return
		}
		var q request
		if q.text = strings.TrimRight(string(line), "\r\n"); long || len(q.text) > maxLine {
			q = request{long: true}
		}
		select {
		case c.in <- q:
		case <-c.done:
			return
		}
	}
}

// login asks for the password, if there is one.
func (c *conversation) login() error {
	if c.srv.password == nil {
		return nil
	}
	limit := time.NewTimer(loginTimeout)
	defer limit.Stop()
	for range maxWrong {
		c.write("ENTER PASSWORD:")
		select {
		case q, ok := <-c.in:
			if !ok {
				return errQuit
			}
			sum := sha256.Sum256([]byte(q.text))
			if !q.long && subtle.ConstantTimeCompare(sum[:], c.srv.password[:]) == 1 {
				c.line("SUCCESS: password is correct")
				return c.err
			}
		case <-limit.C:
			return errLogin
		case <-c.srv.stop:
			return errQuit
		}
		select {
		case <-time.After(c.srv.pause):
		case <-c.srv.stop:
			return errQuit
		}
	}
	return errPassword
}

// serve answers commands and tells what the client wants to be told.
func (c *conversation) serve() error {
	c.line(">INFO:OpenVPN Management Interface Version 5 -- type 'help' for more info")
	for c.err == nil && !c.quits {
		var tick <-chan time.Time
		if c.tick != nil {
			tick = c.tick.C
		}
		select {
		case <-c.srv.stop:
			return nil
		case q, ok := <-c.in:
			if !ok {
				return nil
			}
			c.flush()
			c.command(q)
		case n := <-c.notes:
			c.line(n)
			c.flush()
		case <-tick:
			c.byteCounts()
		}
	}
	return c.err
}

// note has a line told as soon as possible. Safe for concurrent use; it doesn't
// block.
func (c *conversation) note(line string) {
	select {
	case c.notes <- line:
	default:
		c.lost.Add(1)
	}
}

// flush tells what waits to be told.
func (c *conversation) flush() {
	for {
		select {
		case n := <-c.notes:
			c.line(n)
			continue
		default:
		}
		if n := c.lost.Swap(0); n > 0 {
			c.line(fmt.Sprintf(">LOG:%d,W,%d lines were left out, since they were read too slowly", c.srv.cfg.Now().Unix(), n))
		}
		return
	}
}

// line writes a line.
func (c *conversation) line(text string) { c.write(text + "\r\n") }

// block writes lines that end in line feeds.
func (c *conversation) block(text string) { c.write(strings.ReplaceAll(text, "\n", "\r\n")) }

// write writes text as it is. A client that doesn't read loses its connection: from
// the first error on, nothing is written.
func (c *conversation) write(text string) {
	for c.err == nil && text != "" {
		part := text[:min(len(text), writeChunk)]
		text = text[len(part):]
		limit := c.srv.patience
		select {
		case <-c.srv.stop:
			limit = goodbye
		default:
		}
		if c.err = c.conn.SetWriteDeadline(time.Now().Add(limit)); c.err == nil {
			_, c.err = c.conn.Write([]byte(part))
		}
	}
}
