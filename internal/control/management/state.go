// SPDX-License-Identifier: Apache-2.0

package management

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

// maxStates is how many states are kept, as OpenVPN keeps them.
const maxStates = 100

// State is a line of the state command. OpenVPN's servers go CONNECTING, ASSIGN_IP,
// CONNECTED, RECONNECTING (with the signal as detail) and EXITING.
type State struct {
	Time time.Time
	Name string
	// Detail is SUCCESS for CONNECTED, else a reason or "".
	Detail string
	// Tunnel4 and Tunnel6 are the server's own addresses in the tunnel.
	Tunnel4, Tunnel6 netip.Addr
}

// text is the state's line. Outer addresses, the four empty fields, are a client's.
func (st State) text() string {
	var own4, own6 string
	if st.Tunnel4.IsValid() {
		own4 = st.Tunnel4.String()
	}
	if st.Tunnel6.IsValid() {
		own6 = "," + st.Tunnel6.String()
	}
	return fmt.Sprintf("%d,%s,%s,%s,,,,%s", st.Time.Unix(), status.Printable(st.Name), status.Printable(st.Detail), own4, own6)
}

// SetState records what the server does now, and tells whoever asked to be told.
func (s *Server) SetState(st State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.states) == maxStates {
		s.states = append(s.states[:0], s.states[1:]...)
	}
	s.states = append(s.states, st)
	if s.talking != nil && s.talking.states.Load() {
		s.talking.note(">STATE:" + st.text())
	}
}

// recentStates returns the newest n states, oldest first.
func (s *Server) recentStates(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, st := range s.states[max(0, len(s.states)-n):] {
		out = append(out, st.text())
	}
	return out
}
