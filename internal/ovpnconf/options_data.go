// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"slices"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// defaultCiphers are OpenVPN 2.6's and what DEFAULT stands for in data-ciphers.
var defaultCiphers = []aead.Cipher{aead.AES256GCM, aead.AES128GCM, aead.ChaCha20Poly1305}

func dataOptions() []OptionDoc {
	t := TopicData
	noCompression := "remove it here and from the clients; compression has leaked the contents of VPNs (VORACLE)"
	return append([]OptionDoc{
		{Name: "data-ciphers", Aliases: []string{"ncp-ciphers"}, Topic: t, Args: "LIST", Min: 1, Max: 1, Place: InFile | InClientFile, read: readDataCiphers, client: clientCiphers,
			Text: "AES-128-GCM, AES-192-GCM, AES-256-GCM and CHACHA20-POLY1305, best first; others are left out, and refused if none remains. Default AES-256-GCM:AES-128-GCM:CHACHA20-POLY1305"},
		{Name: "data-ciphers-fallback", Topic: t, Args: "CIPHER", Min: 1, Max: 1, Place: InFile | InClientFile, read: readFallback, client: clientFallback,
			Text: "cipher of clients that negotiate none; one of data-ciphers' four"},
		{Name: "cipher", Topic: t, Args: "CIPHER", Min: 1, Max: 1, Place: InFile | InClientFile, Verdict: Ignored, client: clientIgnores,
			Text: "the cipher is negotiated from data-ciphers, as with OpenVPN since 2.6"},
		{Name: "allow-compression", Topic: t, Args: "no", Min: 1, Max: 1, read: readAllowCompression, Text: "asym and yes are refused"},
		{Name: "compress", Topic: t, Args: "[migrate]", Max: 1, Place: InFile | InClientFile, read: readCompress, client: clientCompress,
			Text: "migrate is accepted and does nothing; every other form is refused, stubs too, since they change every packet"},
		{Name: "comp-lzo", Topic: t, Args: "[no]", Max: 1, Place: InFile | InClientFile, read: readCompLZO, client: clientCompress,
			Text: "no is ignored: clients that have comp-lzo in any form are turned away, since even no adds a byte to every packet. Every other form is refused"},
		{Name: "comp-noadapt", Topic: t, Verdict: Refused, Place: InFile | InClientFile, Text: "compression is not spoken", Remedy: noCompression},
		{Name: "replay-window", Topic: t, Args: "N [SECONDS]", Max: 2, Verdict: Ignored, Text: "the window is fixed: 2048 records, as the kernel driver's"},
		{Name: "no-replay", Topic: t, Verdict: Refused, Text: "replayed records are always dropped", Remedy: "remove it"},
		{Name: "secret", Topic: t, Args: "FILE [DIRECTION]", Max: -1, Place: InFile | AsBlock, Verdict: Refused, Text: "a fixed key cannot be used with AEAD ciphers, nor with several clients",
			Remedy: "make a CA, for example with easy-rsa, and use ca, cert and key"},
		{Name: "tls-client", Topic: t, Verdict: Refused, Text: "the gateway is a server", Remedy: "remove it"},
	},
		slices.Concat(
			ignored(t, "ciphers are always negotiated", "ncp-disable"),
			ignored(t, "messages about replays are limited anyway", "mute-replay-warnings"),
			ignored(t, "packet ids of sessions are not kept across a restart, since every session has new keys", "replay-persist"),
			ignored(t, "options strings are never a reason to turn a client away", "opt-verify", "disable-occ"),
			ignored(t, "keys are exported from TLS where client and TLS version can", "force-tls-key-material-export"),
			ignored(t, "random numbers are the kernel's", "prng", "use-prediction-resistance"),
			ignored(t, "the gateway uses no variable key sizes", "keysize"),
			ignored(t, "nothing uses exported key material", "keying-material-exporter"),
			ignored(t, "the gateway talks to clients from 2.4 on as it is", "compat-mode"),
			ignored(t, "the data path is in the gateway itself: AF_XDP, and its UDP and TCP sockets", "disable-dco"),
			ignored(t, "outer packets are not limited in rate", "shaper"),
			refused(t, "keys are negotiated", "remove it", "key-method", "allow-deprecated-insecure-static-crypto"),
		)...)
}

// parseCiphers returns what of a data-ciphers list can be used.
func parseCiphers(list string) (out []aead.Cipher, dropped []string) {
	add := func(c aead.Cipher) {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	for _, name := range splitList(list) {
		name = strings.TrimPrefix(name, "?")
		if name == "DEFAULT" {
			for _, c := range defaultCiphers {
				add(c)
			}
			continue
		}
		c, err := aead.ParseCipher(name)
		if err != nil {
			dropped = append(dropped, name)
			continue
		}
		add(c)
	}
	return out, dropped
}

func readDataCiphers(r *reader, l Line) answer {
	ciphers, a := ciphersOf(l)
	if a.verdict != Refused {
		r.c.Data.Ciphers = ciphers
	}
	return a
}

func ciphersOf(l Line) ([]aead.Cipher, answer) {
	out, dropped := parseCiphers(l.Args[0])
	if len(out) == 0 {
		return nil, refuse("add AES-256-GCM, AES-128-GCM or CHACHA20-POLY1305; clients from 2.4 on have them", "none of these ciphers is spoken")
	}
	if dropped != nil {
		return out, note("not spoken and left out: %s", printable(strings.Join(dropped, ":")))
	}
	return out, fine
}

func readFallback(r *reader, l Line) answer {
	c, a := fallbackOf(l)
	r.c.Data.Fallback = c
	return a
}

func fallbackOf(l Line) (aead.Cipher, answer) {
	c, err := aead.ParseCipher(l.Args[0])
	if err != nil {
		return 0, refuse("remove it, or give AES-256-GCM; clients that know only CBC ciphers have to be updated to 2.4 or later", "cipher %q is not spoken", printable(l.Args[0]))
	}
	return c, fine
}

func readAllowCompression(_ *reader, l Line) answer {
	switch l.Args[0] {
	case "no":
		return fine
	case "yes", "asym":
		return refuse("write allow-compression no", "compression is not spoken")
	}
	return refuse("write allow-compression no", "%q is not possible", printable(l.Args[0]))
}

func readCompress(_ *reader, l Line) answer {
	if len(l.Args) == 1 && l.Args[0] == "migrate" {
		return ignore("nothing is compressed; clients that announce compression as possible are welcome, those that have comp-lzo in their options string are not")
	}
	return refuse("remove it here and from the clients; compression has leaked the contents of VPNs (VORACLE)", "compression is not spoken, and a stub changes every packet too")
}

func readCompLZO(_ *reader, l Line) answer {
	if len(l.Args) == 1 && l.Args[0] == "no" {
		return ignore("its extra byte in every packet is not spoken: remove comp-lzo from clients too, they are turned away with it")
	}
	return refuse("remove it here and from the clients; compression has leaked the contents of VPNs (VORACLE)", "compression is not spoken")
}
