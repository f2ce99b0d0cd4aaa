// SPDX-License-Identifier: Apache-2.0

package management

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// acceptPause is waited when the process is out of descriptors or memory.
	acceptPause = time.Second
	// goodbye is how long Close lets a reply be written.
	goodbye = time.Second
	// wrongPause is waited after a wrong password, against guessing.
	wrongPause = time.Second
)

// Server is a management interface. Its methods are safe for concurrent use.
type Server struct {
	cfg      Config
	pid      int
	password *[sha256.Size]byte // nil: none
	callers  callers
	pause    time.Duration // after a wrong password
	patience time.Duration // with a write
	log      *slog.Logger
	lines    limiter

	listener net.Listener
	stop     chan struct{} // closed by Close

	mu      sync.Mutex
	closed  bool
	served  chan struct{} // closed when Serve has returned; nil before Serve
	talking *conversation
	states  []State
}

// New opens the listener, so that errors are known at start. Close has to follow.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, pid: os.Getpid(), pause: wrongPause, patience: writeTimeout, log: cfg.Logger, stop: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.cfg.Now == nil {
		s.cfg.Now = time.Now
	}
	if s.cfg.Log == nil {
		s.cfg.Log = NewLog(1)
	}
	if cfg.Password != "" {
		sum := sha256.Sum256([]byte(cfg.Password))
		s.password = &sum
	}
	var err error
	if s.callers, err = newCallers(cfg); err != nil {
		return nil, err
	}
	if cfg.Unix != "" {
		s.listener, err = listenUnix(cfg.Unix, s.callers)
	} else {
		s.listener, err = listenTCP(cfg.Addr)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve talks to one client after the other, as OpenVPN does: others wait until
// the one before has gone. It returns nil after Close, else what broke the listener. It
// is called once.
func (s *Server) Serve() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.served = make(chan struct{})
	s.mu.Unlock()
	defer close(s.served)
	for {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			s.talk(conn)
		case errors.Is(err, net.ErrClosed):
			return nil
		case scarce(err):
			select {
			case <-s.stop:
			case <-time.After(acceptPause):
			}
		default:
			return fmt.Errorf("accept management connection: %w", err)
		}
	}
}

// scarce reports whether an error of accept passes.
func scarce(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// talk serves one connection to its end.
func (s *Server) talk(conn net.Conn) {
	defer conn.Close()
	who, err := s.callers.check(conn)
	if err != nil {
		if s.lines.allow(s.cfg.Now()) {
			s.log.Warn("management connection refused", "from", who, "err", err)
		}
		return
	}
	c := newConversation(s, conn)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.talking = c
	s.mu.Unlock()

	told := s.lines.allow(s.cfg.Now())
	if told {
		s.log.Info("management client connected", "from", who)
	}
	err = c.run()

	s.mu.Lock()
	s.talking = nil
	s.mu.Unlock()
	switch {
	case err != nil && s.lines.allow(s.cfg.Now()):
		s.log.Warn("management client disconnected", "from", who, "err", err)
	case told:
		s.log.Info("management client disconnected", "from", who)
	}
}

// Close ends the conversation, for whose last reply it waits a second, closes the
// listener, removes the Unix socket and waits until Serve has returned.
func (s *Server) Close() {
	s.mu.Lock()
	served := s.served
	if !s.closed {
		s.closed = true
		close(s.stop)
		s.listener.Close()
		if s.talking != nil {
			s.talking.conn.SetDeadline(time.Now().Add(goodbye))
		}
	}
	s.mu.Unlock()
	if served != nil {
		<-served
	}
}
