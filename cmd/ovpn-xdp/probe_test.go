// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
)

func TestProbeText(t *testing.T) {
	r := report{steer.Report{
		NIC: "eth0", Driver: "mlx5_core", MTU: 1500, Up: true, RxQueues: 8, ChunkSize: 2048,
		XDP:      &steer.Holder{ProgID: 42, Name: "xdp_dispatcher", LinkID: 7},
		Features: &netdev.XDPFeatures{Basic: true, Redirect: true, ZeroCopy: true},
		Kernel:   steer.Kernel{XSKMap: true, TCX: true},
		Auto:     steer.ModeTC,
		Why:      []string{"xdp: slot held by program 42 `xdp_dispatcher` (link 7)"},
		Missing:  []string{"CAP_BPF"},
		Notes:    []string{"attaching resets the link"},
	}}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := "nic           eth0, mlx5_core, up, MTU 1500, 8 receive queues\n" +
		"auto          tc\n" +
		"              not xdp: slot held by program 42 `xdp_dispatcher` (link 7)\n" +
		"xdp slot      held by program 42 `xdp_dispatcher` (link 7)\n" +
		"driver offers native XDP, redirect, AF_XDP zero-copy, no multi-buffer\n" +
		"kernel offers AF_XDP, tcx, no XDP frags\n" +
		"umem chunk    2048 bytes\n" +
		"missing       CAP_BPF\n" +
		"note          attaching resets the link\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	raw, err := json.Marshal(r)
	if err != nil || !strings.HasPrefix(string(raw), `{"nic":"eth0"`) {
		t.Errorf("JSON %.60s, %v", raw, err)
	}
}

func TestProbeOfNoDevice(t *testing.T) {
	if r, err := probe(context.Background(), "no-such-nic"); err == nil || r != nil || !strings.Contains(err.Error(), "no-such-nic") {
		t.Errorf("got %v, %v", r, err)
	}
}
