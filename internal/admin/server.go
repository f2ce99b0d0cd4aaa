// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxConns bounds descriptors and goroutines; a monitoring system needs
	// one or two.
	maxConns = 64
	// writeTimeout is for one answer: a client that stopped reading gives up
	// its connection. Streams of events have none, their queue is bounded.
	writeTimeout = 10 * time.Second
	// closeGrace is how long Close waits for requests under way.
	closeGrace = 2 * time.Second
	// acceptPause keeps a lasting error of accept from using a core.
	acceptPause = 100 * time.Millisecond
)

// Server answers requests on a Unix socket.
type Server struct {
	handler  Handler
	log      *slog.Logger
	listener *net.UnixListener
	// allowed reports whether a process of this user may ask.
	allowed func(uid uint32) bool

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  map[*net.UnixConn]struct{}
	closed bool
}

// Listen makes the admin socket at path, with mode 0600 in a folder as MakeDir
// wants it, and answers on it until Close. Only root and the user of this
// process may ask. A socket left behind at path is replaced: the caller holds
// the gateway's lock, so nobody serves it.
func Listen(path string, h Handler, log *slog.Logger) (*Server, error) {
	l, err := listen(path)
	if err != nil {
		return nil, err
	}
	s := newServer(l, h, log)
	s.start()
	return s, nil
}

func newServer(l *net.UnixListener, h Handler, log *slog.Logger) *Server {
	self := uint32(os.Geteuid())
	s := &Server{
		handler:  h,
		log:      log,
		listener: l,
		allowed:  func(uid uint32) bool { return uid == 0 || uid == self },
		conns:    make(map[*net.UnixConn]struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *Server) start() {
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		s.accept()
	}()
}

// accept takes connections until Close. Errors are those of a moment, such as
// no free descriptor: the socket stays.
func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case err == nil:
			s.admit(conn)
		case s.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			s.log.Warn("admin socket: accept failed", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-s.ctx.Done():
				return
			}
		}
	}
}

func (s *Server) admit(conn *net.UnixConn) {
	s.mu.Lock()
	full := len(s.conns) >= maxConns
	if s.closed || full {
		s.mu.Unlock()
		if full {
			refuse(conn, Errorf(CodeBusy, "%d connections are open already", maxConns))
		}
		_ = conn.Close()
		return
	}
	s.conns[conn] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		defer func() {
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
			_ = conn.Close()
		}()
		s.serve(conn)
	}()
}

// refuse answers a connection that is closed next, without waiting for it.
func refuse(conn *net.UnixConn, e *Error) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second / 10))
	_ = writeLine(conn, Response{Version: Version, Error: e})
}

func (s *Server) serve(conn *net.UnixConn) {
	cred, err := peerCredentials(conn)
	if err != nil {
		s.log.Warn("admin socket: no credentials", "error", err)
		refuse(conn, Errorf(CodeDenied, "who is asking could not be found out"))
		return
	}
	log := s.log.With("pid", cred.Pid, "uid", cred.Uid)
	if !s.allowed(cred.Uid) {
		log.Warn("admin socket: refused")
		refuse(conn, Errorf(CodeDenied, "user %d may not ask this gateway: only root and the user it runs as", cred.Uid))
		return
	}
	defer func() {
		// A defect here must not take the tunnel down with it.
		if v := recover(); v != nil {
			log.Error("admin socket: panic", "value", v, "stack", string(debug.Stack()))
		}
	}()
	s.converse(conn, log)
}

func peerCredentials(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var sockErr error
	if err := raw.Control(func(fd uintptr) {
		cred, sockErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, sockErr
}

// Close stops accepting, lets requests under way finish for up to two
// seconds, ends every stream and removes the socket. It may be called twice.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.wg.Wait()
		return nil
	}
	s.closed = true
	s.cancel()
	err := s.listener.Close()
	for conn := range s.conns {
		_ = conn.SetReadDeadline(time.Now())
	}
	s.mu.Unlock()

	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeGrace):
		s.mu.Lock()
		for conn := range s.conns {
			_ = conn.Close()
		}
		s.mu.Unlock()
		<-done
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close admin socket: %w", err)
	}
	return nil
}
