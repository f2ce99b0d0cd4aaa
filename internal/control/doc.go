// SPDX-License-Identifier: Apache-2.0

// Package control is the place of the OpenVPN control channel, which does not
// exist yet. It will take datagrams that are not DATA_V2 (engine.Control is the
// interface it implements), answer through the listeners, and install peers and
// keys in a pkg/peer table. It must never import internal/engine: control and
// data plane meet in internal/daemon only.
package control
