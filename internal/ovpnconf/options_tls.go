// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func tlsOptions() []OptionDoc {
	t := TopicTLS
	block := InFile | AsBlock
	return append([]OptionDoc{
		{Name: "ca", Topic: t, Args: "FILE", Min: 1, Max: 1, Place: block, read: source(func(c *Common) *Source { return &c.Peers.CA }),
			Text: "certificates of the CAs whose clients may connect"},
		{Name: "capath", Topic: t, Args: "DIR", Min: 1, Max: 1, read: pathAt(func(c *Common) *string { return &c.Peers.CAPath }), Text: "folder of CA certificates"},
		{Name: "cert", Topic: t, Args: "FILE", Min: 1, Max: 1, Place: block, read: source(func(c *Common) *Source { return &c.TLS.Cert }),
			Text: "the gateway's certificate, with intermediate ones behind it"},
		{Name: "key", Topic: t, Args: "FILE", Min: 1, Max: 1, Place: block, read: source(func(c *Common) *Source { return &c.TLS.Key }), Text: "its private key"},
		{Name: "extra-certs", Topic: t, Args: "FILE", Min: 1, Max: 1, Place: block, read: source(func(c *Common) *Source { return &c.TLS.ExtraCerts }), Text: "more intermediate certificates"},
		{Name: "pkcs12", Topic: t, Args: "FILE", Min: 1, Max: 1, Place: block, read: source(func(c *Common) *Source { return &c.TLS.PKCS12 }),
			Text: "certificate, key and CA in one file; inline it is in base64"},
		{Name: "askpass", Topic: t, Args: "FILE", Max: 1, read: readAskpass, Text: "pass phrase of the private key, in the first line of a file; the console is not asked"},
		{Name: "dh", Topic: t, Args: "FILE|none", Min: 1, Max: 1, Place: block, Verdict: Ignored, Text: "keys are agreed on by elliptic curves only (ECDHE)"},
		{Name: "tls-server", Topic: t, Text: "implied by server"},
		{Name: "crl-verify", Topic: t, Args: "FILE | DIR dir", Min: 1, Max: 2, Place: block, read: readCRL,
			Text: "revoked certificates; read at each handshake, and when it cannot be read nobody is let in"},
		{Name: "verify-client-cert", Topic: t, Args: "[require|optional|none]", Max: 1, read: readClientCert,
			Text: "optional and none need auth-user-pass-verify"},
		{Name: "remote-cert-tls", Topic: t, Args: "client", Min: 1, Max: 1, read: readRemoteCertTLS,
			Text: "clients' certificates need a key usage and the extended key usage for clients"},
		{Name: "remote-cert-ku", Topic: t, Args: "HEX...", Max: maxArgs - 1, read: readKU, Text: "clients' certificates need one of these key usages"},
		{Name: "remote-cert-eku", Topic: t, Args: "OID|NAME", Min: 1, Max: 1, read: value(func(c *Common) *string { return &c.Peers.RemoteEKU }), Text: "clients' certificates need this extended key usage"},
		{Name: "verify-x509-name", Topic: t, Args: "NAME [subject|name|name-prefix]", Min: 1, Max: 2, read: readX509Name, Text: "clients' certificates need this name"},
		{Name: "peer-fingerprint", Topic: t, Args: "SHA256", Min: 1, Max: 1, Place: block, read: readFingerprints,
			Text: "only these certificates are accepted; without ca they may be self-signed"},
		{Name: "x509-username-field", Topic: t, Args: "FIELD|ext:EXTENSION...", Min: 1, Max: maxArgs - 1, read: readUsernameFields,
			Text: "the field of the certificate that is the common name, default CN"},
		{Name: "x509-track", Topic: t, Args: "[+]ATTRIBUTE", Min: 1, Max: 1, read: readTrack, Text: "attribute of certificates for the environment of commands"},
		{Name: "tls-verify", Topic: t, Args: `"COMMAND"`, Min: 1, Max: 1, read: readTLSVerify, Text: "run for each certificate of a client's chain, has to exit with 0. Needs script-security 2"},
		{Name: "tls-export-cert", Topic: t, Args: "DIR", Min: 1, Max: 1, read: pathAt(func(c *Common) *string { return &c.Peers.ExportCert }), Text: "folder for client certificates that tls-verify may read (peer_cert)"},
		{Name: "tls-version-min", Topic: t, Args: "1.2|1.3 [or-highest]", Min: 1, Max: 2, read: readVersionMin, Text: "1.0 and 1.1 are raised to 1.2, the least that is spoken"},
		{Name: "tls-version-max", Topic: t, Args: "1.2|1.3", Min: 1, Max: 1, read: readVersionMax, Text: "1.0 and 1.1 are refused"},
		{Name: "tls-cipher", Topic: t, Args: "NAMES", Min: 1, Max: 1, read: readTLSCipher,
			Text: "suites of TLS 1.2 by OpenSSL's or IANA's names. DHE suites and expressions such as DEFAULT:!aNULL are not understood"},
		{Name: "tls-ciphersuites", Topic: t, Args: "NAMES", Min: 1, Max: 1, Verdict: Ignored, Text: "the suites of TLS 1.3 are fixed: AES-128-GCM, AES-256-GCM, CHACHA20-POLY1305"},
		{Name: "tls-groups", Topic: t, Args: "NAMES", Min: 1, Max: 1, read: readGroups, Text: "groups of the key exchange: X25519, secp256r1, secp384r1, secp521r1 and X25519MLKEM768; others are left out"},
		{Name: "ecdh-curve", Topic: t, Args: "NAME", Min: 1, Max: 1, read: readGroups, Text: "as tls-groups"},
		{Name: "tls-cert-profile", Topic: t, Args: "legacy|preferred|suiteb|insecure", Min: 1, Max: 1, read: readCertProfile,
			Text: "key sizes and signatures that certificates need; SHA-1 signatures are never accepted"},
	},
		append(refused(t, "it is not implemented, and leaving it out would let more clients in", "use remote-cert-tls client", "ns-cert-type"),
			append(refused(t, "it is not implemented, and leaving it out would let more clients in", "give only that CA in ca, or use peer-fingerprint", "verify-hash"),
				refused(t, "OpenVPN removed it, and leaving it out would let more clients in", "use verify-x509-name", "tls-remote")...)...)...)
}

func readAskpass(r *reader, l Line) answer {
	if len(l.Args) == 0 {
		return refuse("give a file with the pass phrase in its first line", "there is no console to ask")
	}
	return readSource(l, &r.c.TLS.AskPass)
}

func readCRL(r *reader, l Line) answer {
	r.c.Peers.CRLDir = false
	if len(l.Args) == 2 {
		if l.Args[1] != "dir" {
			return refuse("write crl-verify FILE, or crl-verify DIR dir", "%q is not possible", printable(l.Args[1]))
		}
		r.c.Peers.CRLDir = true
	}
	return readSource(l, &r.c.Peers.CRL)
}

func readClientCert(r *reader, l Line) answer {
	r.c.Peers.ClientCert = CertRequired
	if len(l.Args) == 0 {
		return fine
	}
	switch l.Args[0] {
	case "require":
	case "optional":
		r.c.Peers.ClientCert = CertOptional
	case "none":
		r.c.Peers.ClientCert = CertNone
	default:
		return refuse("one of: require, optional, none", "%q is not possible", printable(l.Args[0]))
	}
	return fine
}

func readKU(r *reader, l Line) answer {
	r.c.Peers.RemoteKUAny, r.c.Peers.RemoteKU = len(l.Args) == 0, nil
	for _, arg := range l.Args {
		n, err := strconv.ParseUint(strings.TrimPrefix(arg, "0x"), 16, 16)
		if err != nil || n == 0 {
			return refuse("give bits in hex, such as 80 a0 88", "%q is no key usage", printable(arg))
		}
		r.c.Peers.RemoteKU = append(r.c.Peers.RemoteKU, uint16(n))
	}
	return fine
}

// readRemoteCertTLS asks for both usages to be there. A remote-cert-ku or
// remote-cert-eku behind it takes the place of its part, as with stock.
func readRemoteCertTLS(r *reader, l Line) answer {
	c := &r.c.Peers
	switch l.Args[0] {
	case "client":
		c.RemoteEKU = "1.3.6.1.5.5.7.3.2"
	case "server":
		c.RemoteEKU = "1.3.6.1.5.5.7.3.1"
	default:
		return refuse("one of: client, server", "%q is not possible", printable(l.Args[0]))
	}
	c.RemoteCertTLS, c.RemoteKUAny, c.RemoteKU = l.Args[0], true, nil
	return fine
}

func readX509Name(r *reader, l Line) answer {
	if l.Args[0] == "" {
		return refuse("give a name", "the name is empty")
	}
	kind := NameSubject
	if len(l.Args) == 2 {
		switch l.Args[1] {
		case "subject":
		case "name":
			kind = NameWhole
		case "name-prefix":
			kind = NameWithPrefix
		default:
			return refuse("one of: subject, name, name-prefix", "%q is no type of name", printable(l.Args[1]))
		}
	}
	r.c.Peers.Name, r.c.Peers.NameType = l.Args[0], kind
	return fine
}

func readFingerprints(r *reader, l Line) answer {
	var list []string
	if l.Inline != nil {
		for line := range strings.Lines(*l.Inline) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != ';' {
				list = append(list, line)
			}
		}
	} else {
		list = l.Args
	}
	if len(list) == 0 {
		return refuse("give the SHA-256 of a certificate", "it names no certificate")
	}
	for _, s := range list {
		b, err := hex.DecodeString(strings.ReplaceAll(s, ":", ""))
		if err != nil || len(b) != 32 {
			return refuse("take it from `openssl x509 -fingerprint -sha256 -noout -in FILE`", "%q is no SHA-256 fingerprint of 32 bytes", printable(s))
		}
		r.c.Peers.Fingerprints = append(r.c.Peers.Fingerprints, [32]byte(b))
	}
	return fine
}

func readUsernameFields(r *reader, l Line) answer {
	var fields, raised []string
	for _, f := range l.Args {
		if ext, ok := strings.CutPrefix(f, "ext:"); ok {
			if ext != "subjectAltName" && ext != "issuerAltName" {
				return refuse("ext:subjectAltName and ext:issuerAltName are possible", "%q is no supported extension", printable(ext))
			}
		} else if f == "" {
			return refuse("give a field of the subject, such as CN", "the field is empty")
		} else if !strings.ContainsFunc(f, func(c rune) bool { return c >= 'A' && c <= 'Z' }) {
			f = strings.ToUpper(f)
			raised = append(raised, f)
		}
		fields = append(fields, f)
	}
	r.c.Peers.UsernameFields = fields
	if raised != nil {
		return note("read as %s, as stock does", strings.Join(raised, " "))
	}
	return fine
}

func readTrack(r *reader, l Line) answer {
	name, full := strings.CutPrefix(l.Args[0], "+")
	if name == "" {
		return refuse("give an attribute, such as CN or SHA1", "it names no attribute")
	}
	r.c.Peers.Track = append(r.c.Peers.Track, X509Track{name, full})
	return fine
}

// readTLSVerify reads commas as blanks, as OpenVPN does for this option.
func readTLSVerify(r *reader, l Line) answer {
	return readCommand(strings.ReplaceAll(l.Args[0], ",", " "), &r.c.Peers.Verify)
}

func tlsVersion(s string) (uint16, bool) {
	switch s {
	case "1.0":
		return tls.VersionTLS10, true
	case "1.1":
		return tls.VersionTLS11, true
	case "1.2":
		return tls.VersionTLS12, true
	case "1.3":
		return tls.VersionTLS13, true
	}
	return 0, false
}

func readVersionMin(r *reader, l Line) answer {
	v, ok := tlsVersion(l.Args[0])
	highest := len(l.Args) == 2 && l.Args[1] == "or-highest"
	switch {
	case len(l.Args) == 2 && !highest:
		return refuse("write tls-version-min 1.2", "%q is not possible", printable(l.Args[1]))
	case !ok && highest:
		v = tls.VersionTLS13
	case !ok:
		return refuse("give 1.2 or 1.3", "%q is no version of TLS", printable(l.Args[0]))
	}
	r.c.TLS.MinVersion = max(v, tls.VersionTLS12)
	if v < tls.VersionTLS12 {
		return note("1.2 is used: older versions are not spoken")
	}
	return fine
}

func readVersionMax(r *reader, l Line) answer {
	v, ok := tlsVersion(l.Args[0])
	if !ok || v < tls.VersionTLS12 {
		return refuse("give 1.2 or 1.3, or remove it", "%q is no version of TLS that is spoken", printable(l.Args[0]))
	}
	r.c.TLS.MaxVersion = v
	return fine
}

func readTLSCipher(r *reader, l Line) answer {
	var dropped, kept []string
	for _, name := range splitList(l.Args[0]) {
		upper := strings.ToUpper(name)
		switch {
		case strings.ContainsAny(name, "!+@=") || strings.HasPrefix(name, "-") || !strings.ContainsAny(name, "-_"):
			return ignore("it is an expression of OpenSSL's; the default suites are used, all with forward secrecy")
		case strings.HasPrefix(upper, "TLS-DHE-") || strings.HasPrefix(upper, "DHE-") || strings.HasPrefix(upper, "TLS_DHE_"):
			dropped = append(dropped, name)
		default:
			kept = append(kept, name)
		}
	}
	if len(kept) == 0 {
		return refuse("remove it: the default suites all have forward secrecy", "no suite is left: those with DHE are not spoken, only ECDHE")
	}
	r.c.TLS.Ciphers = kept
	if dropped != nil {
		return note("not spoken and left out: %s", printable(strings.Join(dropped, ":")))
	}
	return fine
}

// groups are the names of key exchange groups that crypto/tls has.
var groups = []string{
	"X25519", "secp256r1", "prime256v1", "P-256", "secp384r1", "P-384", "secp521r1", "P-521", "X25519MLKEM768",
}

func readGroups(r *reader, l Line) answer {
	var kept, dropped []string
	for _, name := range splitList(l.Args[0]) {
		if slices.ContainsFunc(groups, func(g string) bool { return strings.EqualFold(g, name) }) {
			kept = append(kept, name)
		} else {
			dropped = append(dropped, name)
		}
	}
	if len(kept) == 0 {
		return refuse("remove it, or add X25519 or secp256r1", "none of these groups is spoken")
	}
	r.c.TLS.Groups = kept
	if dropped != nil {
		return note("not spoken and left out: %s", printable(strings.Join(dropped, ":")))
	}
	return fine
}

func readCertProfile(r *reader, l Line) answer {
	a := oneOf("legacy preferred suiteb insecure", func(c *Common) *string { return &c.TLS.CertProfile })(r, l)
	if a.verdict == Honoured && l.Args[0] == "insecure" {
		return note("SHA-1 signatures are refused all the same")
	}
	return a
}

// checkTLS says what is missing for a TLS server.
func (r *reader) checkTLS() {
	s := r.s
	p12 := r.was("pkcs12")
	if p12 {
		for _, o := range []string{"cert", "key", "capath"} {
			if r.was(o) {
				r.amend(o, refuse("remove one of them", "pkcs12 is given too"))
			}
		}
	} else {
		for _, o := range []string{"cert", "key"} {
			if !r.was(o) {
				r.amend(o, refuse(fmt.Sprintf("add %s FILE, or pkcs12 FILE", o), "it is missing, and a TLS server needs it"))
			}
		}
	}
	if !r.was("ca") && !r.was("capath") && !r.was("peer-fingerprint") && !p12 {
		r.amend("ca", refuse("add ca FILE, or peer-fingerprint", "it is missing, so no client's certificate could be checked"))
	}
	if s.TLS.MaxVersion != 0 && s.TLS.MaxVersion < s.TLS.MinVersion {
		r.amend("tls-version-max", refuse("raise it", "it is below tls-version-min"))
	}
	if s.Peers.ClientCert != CertRequired && s.Auth.Verify == nil && r.given("verify-client-cert") {
		r.amend("verify-client-cert", refuse("add auth-user-pass-verify, or write verify-client-cert require",
			"without user and password verification anybody could connect"))
	}
	if s.Peers.RemoteCertTLS == "server" && r.given("remote-cert-tls") {
		r.amend("remote-cert-tls", note("clients need certificates for servers; `remote-cert-tls client` is usual"))
	}
}
