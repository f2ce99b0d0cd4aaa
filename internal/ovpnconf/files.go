// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// maxContent bounds a certificate, key or revocation list, in bytes.
const maxContent = 64 << 20

// Given says whether there is a file or inline content.
func (s Source) Given() bool { return given(s) }

// Load returns the content, read from the file if it is not inline. The
// caller owns the bytes. The error names option, file and line.
func (s Source) Load() ([]byte, error) {
	if s.Inline != nil {
		return bytes.Clone(s.Inline), nil
	}
	b, err := readFile(s.Path, maxContent)
	if err != nil {
		return nil, fmt.Errorf("%s: read %s: %w", s.Line.Position(), s.Line.Option, err)
	}
	return b, nil
}

// Line returns the last line of an option, for messages about it; without
// one, a line that only has the option's name.
func (s *Server) Line(option string) Line {
	if l, ok := s.lines[option]; ok {
		return l
	}
	return Line{Option: option}
}

// Inspect is Check with a look at the files: what Unreadable finds goes into the
// findings of the lines.
func Inspect(lines []Line) (*Server, []Finding) {
	s, findings := Check(lines)
	for _, u := range s.Unreadable() {
		merged := false
		for i := range findings {
			f := &findings[i]
			if f.Line.Number > 0 && f.Line.Number == u.Line.Number && f.Line.File == u.Line.File && f.Line.Option == u.Line.Option {
				if f.Verdict != Refused {
					f.Verdict, f.Why, f.Remedy = max(f.Verdict, u.Verdict), u.Why, u.Remedy
				}
				merged = true
			}
		}
		if !merged {
			findings = append(findings, u)
		}
	}
	return s, findings
}

// Unreadable looks at every file, folder and command that the configuration
// names, and returns what would keep the gateway from starting, or what is
// suspicious, with option, file and line. Commands are not run.
func (s *Server) Unreadable() []Finding {
	var out []Finding
	add := func(l Line, a answer) {
		if a != fine {
			out = append(out, Finding{Line: l, Verdict: a.verdict, Why: a.why, Remedy: a.remedy})
		}
	}
	for _, c := range s.contents() {
		if !given(c.Source) {
			continue
		}
		b, err := c.Load()
		if err != nil {
			add(c.Line, unreadable(c.Path, err))
			continue
		}
		if c.check != nil {
			add(c.Line, c.check(b))
		}
	}
	add(s.TLS.Key.Line, s.checkPair())
	add(s.TLS.Cert.Line, s.doubtCert(time.Now()))
	add(s.Peers.CRL.Line, s.doubtCRL(time.Now()))
	for _, f := range []struct{ option, path string }{
		{"capath", s.Peers.CAPath}, {"client-config-dir", s.Clients.ConfigDir}, {"tls-export-cert", s.Peers.ExportCert}, {"tmp-dir", s.Scripts.TmpDir}, {"cd", s.Process.Cd},
	} {
		if f.path != "" {
			add(s.Line(f.option), checkFolder(f.path))
		}
	}
	if s.Peers.CRLDir && s.Peers.CRL.Path != "" {
		add(s.Peers.CRL.Line, checkFolder(s.Peers.CRL.Path))
	}
	for _, f := range []struct{ option, path string }{
		{"ifconfig-pool-persist", s.PoolPersist.File}, {"status", s.Status.File}, {s.logOption(), s.Log.File}, {"writepid", s.Process.WritePID}, {"management", s.Management.Unix},
	} {
		if f.path != "" {
			if a := checkFolder(filepath.Dir(f.path)); a != fine {
				// A service manager may make it at start (RuntimeDirectory=).
				a := note("its folder is not there now: %s", a.why)
				a.remedy = "make it before the start"
				add(s.Line(f.option), a)
			}
		}
	}
	if s.Management.Password != "" {
		if _, err := readFile(s.Management.Password, maxContent); err != nil {
			add(s.Management.Line, unreadable(s.Management.Password, err))
		}
	}
	for _, c := range s.commands() {
		if c.argv != nil {
			add(s.Line(c.option), s.checkProgram(c.argv))
		}
	}
	return out
}

func (s *Server) logOption() string {
	if s.Log.Append {
		return "log-append"
	}
	return "log"
}

// content is a Source with what its content has to look like.
type content struct {
	Source
	check func([]byte) answer
}

func (s *Server) contents() []content {
	list := []content{
		{s.Peers.CA, hasPEM("CERTIFICATE")},
		{s.TLS.Cert, hasPEM("CERTIFICATE")},
		{s.TLS.ExtraCerts, hasPEM("CERTIFICATE")},
		{s.TLS.Key, hasPEM("PRIVATE KEY")},
		{s.TLS.PKCS12, nil},
		{s.TLS.AskPass, nil},
		{s.Wrap.Key, isStaticKey},
		{s.Wrap.V2, isServerKey},
		{s.Auth.Token.Secret, hasPEM("OpenVPN auth-token server key")},
	}
	if !s.Peers.CRLDir {
		list = append(list, content{s.Peers.CRL, isCRL})
	}
	return list
}

func unreadable(path string, err error) answer {
	reason := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		reason = p.Err
	}
	remedy := "check the path"
	if !filepath.IsAbs(path) {
		remedy = "check the path: it is relative to the folder the gateway is started in, or to cd"
	}
	if os.IsPermission(reason) {
		remedy = "give the gateway's user read permission"
	}
	return refuse(remedy, "%s: %v", printable(path), reason)
}

// hasPEM looks for a PEM block whose type ends with kind.
func hasPEM(kind string) func([]byte) answer {
	return func(b []byte) answer {
		for rest := b; ; {
			var p *pem.Block
			if p, rest = pem.Decode(rest); p == nil {
				return refuse("give a PEM file", "there is no %s in it", kind)
			}
			if strings.HasSuffix(p.Type, kind) {
				return fine
			}
		}
	}
}

func isStaticKey(b []byte) answer {
	if _, err := statickey.Parse(b); err != nil {
		return refuse("make one with `openvpn --genkey secret FILE`", "%v", err)
	}
	return fine
}

func isServerKey(b []byte) answer {
	if _, err := wrap.ParseServerKey(b); err != nil {
		return refuse("make one with `openvpn --genkey tls-crypt-v2-server FILE`", "%v", err)
	}
	return fine
}

// isCRL takes PEM and DER, as crypto/x509 does.
func isCRL(b []byte) answer {
	if p, _ := pem.Decode(b); p != nil && p.Type != "X509 CRL" {
		return refuse("give a revocation list", "there is a %s in it", printable(p.Type))
	} else if p == nil && (len(b) == 0 || b[0] != 0x30) {
		return refuse("give a revocation list", "there is none in it, so nobody could connect")
	} else {
		der := b
		if p != nil {
			der = p.Bytes
		}
		if _, err := x509.ParseRevocationList(der); err != nil && strings.Contains(err.Error(), "version") {
			return refuse("make it with crl_extensions in openssl.cnf, as easy-rsa does", "it is of version 1, which Go refuses though OpenSSL takes it")
		} else if err != nil {
			return refuse("give a revocation list that is whole", "%v", err)
		}
	}
	return fine
}

// checkPair says whether certificate and key belong together. Encrypted keys are
// left for the start.
func (s *Server) checkPair() answer {
	if !given(s.TLS.Cert) || !given(s.TLS.Key) {
		return fine
	}
	cert, err := s.TLS.Cert.Load()
	if err != nil {
		return fine // reported by itself
	}
	key, err := s.TLS.Key.Load()
	if err != nil {
		return fine
	}
	for rest := key; ; {
		var p *pem.Block
		if p, rest = pem.Decode(rest); p == nil {
			break
		}
		if p.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(p.Headers["Proc-Type"], "ENCRYPTED") {
			if !given(s.TLS.AskPass) {
				return refuse("add askpass FILE, or remove the pass phrase with `openssl pkey`", "the key is encrypted")
			}
			return fine
		}
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return refuse("give the key that the certificate was made for", "certificate and key: %s", strings.TrimPrefix(err.Error(), "tls: "))
	}
	return fine
}

func checkFolder(path string) answer {
	info, err := os.Stat(path)
	if err != nil {
		return unreadable(path, err)
	}
	if !info.IsDir() {
		return refuse("give a folder", "%s is not a folder", printable(path))
	}
	return fine
}

// checkProgram looks for the program of a command, which runs in cd's folder.
func (s *Server) checkProgram(c Command) answer {
	path := joinPath(s.Process.Cd, c[0])
	info, err := os.Stat(path)
	if err != nil {
		return unreadable(path, err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return refuse("chmod +x", "%s is not executable", printable(path))
	}
	return fine
}
