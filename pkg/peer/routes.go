// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"net/netip"
)

// free refuses prefixes that belong to another peer than p; t.mu is held.
func (t *Table) free(prefixes []netip.Prefix, p *Peer) error {
	routes := t.routes.Load()
	for _, f := range prefixes {
		if other, ok := routes.Get(f); ok && other != p {
			return fmt.Errorf("%w: route %s belongs to peer %d", ErrExists, f, other.ID)
		}
	}
	return nil
}

// reroute replaces a peer's routes, old ones by next ones, in one step that
// readers see whole; t.mu is held.
func (t *Table) reroute(p *Peer, old, next []netip.Prefix) {
	routes := t.routes.Load()
	for _, f := range old {
		routes = routes.DeletePersist(f)
	}
	for _, f := range next {
		routes = routes.InsertPersist(f, p)
	}
	t.routes.Store(routes)
}
