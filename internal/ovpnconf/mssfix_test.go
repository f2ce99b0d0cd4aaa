// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import "testing"

func TestInnerSize(t *testing.T) {
	for _, tc := range []struct {
		m       MSSFix
		v6, tcp bool
		want    int
	}{
		// What OpenVPN 2.6 and 2.7 agree on by default: MSS 1400 over IPv4 and UDP.
		{MSSFix{MSSFixMTU, 1492}, false, false, 1440},
		{MSSFix{MSSFixMTU, 1492}, true, false, 1420},
		{MSSFix{MSSFixMTU, 1492}, false, true, 1426},
		{MSSFix{MSSFixLink, 1450}, false, false, 1426},
		{MSSFix{MSSFixLink, 1450}, true, false, 1426},
		{MSSFix{MSSFixLink, 1450}, true, true, 1424},
		{MSSFix{MSSFixFixed, 1400}, true, true, 1400},
		{MSSFix{MSSFixMTU, 0}, false, false, 0},
		{MSSFix{MSSFixMTU, 20}, false, false, 0},
	} {
		if got := tc.m.InnerSize(tc.v6, tc.tcp); got != tc.want {
			t.Errorf("%+v v6 %v tcp %v: %d, want %d", tc.m, tc.v6, tc.tcp, got, tc.want)
		}
	}
}

func TestMSSFixOfFiles(t *testing.T) {
	for text, want := range map[string]MSSFix{
		"":                          {MSSFixMTU, 1492},
		"mssfix":                    {MSSFixMTU, 1492},
		"tun-mtu 1400":              {MSSFixFixed, 1400},
		"tun-mtu 1400\nmssfix 1300": {MSSFixLink, 1300},
		"mssfix 1300 mtu":           {MSSFixMTU, 1300},
		"mssfix 1300 fixed":         {MSSFixFixed, 1300},
		"mssfix 0":                  {},
		"max-packet-size 1000":      {MSSFixMTU, 1000},
	} {
		if s := usable(t, minimal+text+"\n"); s.Tunnel.MSSFix != want {
			t.Errorf("%q: %+v, want %+v", text, s.Tunnel.MSSFix, want)
		}
	}
}
