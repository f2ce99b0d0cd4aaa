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
func (c *Common) Line(option string) Line {
	if l, ok := c.lines[option]; ok {
		return l
	}
	return Line{Option: option}
}

// Inspect is Check with a look at the files: what Unreadable finds goes into the
// findings of the lines.
func Inspect(lines []Line) (*Server, []Finding) {
	s, findings := Check(lines)
	return s, merge(findings, s.Unreadable())
}

// merge puts findings about files into those of their lines.
func merge(findings, more []Finding) []Finding {
	for _, u := range more {
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
	return findings
}

// Unreadable looks at every file, folder and command that the configuration
// names, and returns what would keep the gateway from starting, or what is
// suspicious, with option, file and line. Commands are not run.
func (s *Server) Unreadable() []Finding {
	return s.unreadable(false, s.contents(), s.commands(), s.folders(), s.files())
}

// optionPath is an option with the path that it names.
type optionPath struct{ option, path string }

func (c *Common) folders() []optionPath {
	return []optionPath{{"capath", c.Peers.CAPath}, {"tls-export-cert", c.Peers.ExportCert}, {"tmp-dir", c.Scripts.TmpDir}, {"cd", c.Process.Cd}}
}

func (s *Server) folders() []optionPath {
	return append(s.Common.folders(), optionPath{"client-config-dir", s.Clients.ConfigDir})
}

// files are those that are written.
func (c *Common) files() []optionPath {
	return []optionPath{{"status", c.Status.File}, {c.logOption(), c.Log.File}, {"writepid", c.Process.WritePID}, {"management", c.Management.Unix}}
}

func (s *Server) files() []optionPath {
	return append(s.Common.files(), optionPath{"ifconfig-pool-persist", s.PoolPersist.File})
}

func (c *Common) unreadable(client bool, contents []content, commands []optionCommand, folders, files []optionPath) []Finding {
	var out []Finding
	add := func(l Line, a answer) {
		if a != fine {
			out = append(out, Finding{Line: l, Verdict: a.verdict, Why: a.why, Remedy: a.remedy})
		}
	}
	for _, f := range contents {
		if !given(f.Source) {
			continue
		}
		b, err := f.Load()
		if err != nil {
			add(f.Line, unreadable(f.Path, err))
			continue
		}
		if f.check != nil {
			add(f.Line, f.check(b))
		}
	}
	add(c.TLS.Key.Line, c.checkPair())
	purpose, others := x509.ExtKeyUsageServerAuth, "clients"
	if client {
		purpose, others = x509.ExtKeyUsageClientAuth, "the server"
	}
	add(c.TLS.Cert.Line, c.doubtCert(time.Now(), others, purpose))
	add(c.Peers.CRL.Line, c.doubtCRL(time.Now()))
	for _, f := range folders {
		if f.path != "" {
			add(c.Line(f.option), checkFolder(f.path))
		}
	}
	if c.Peers.CRLDir && c.Peers.CRL.Path != "" {
		add(c.Peers.CRL.Line, checkFolder(c.Peers.CRL.Path))
	}
	for _, f := range files {
		if f.path != "" {
			if a := checkFolder(filepath.Dir(f.path)); a != fine {
				// A service manager may make it at start (RuntimeDirectory=).
				a := note("its folder is not there now: %s", a.why)
				a.remedy = "make it before the start"
				add(c.Line(f.option), a)
			}
		}
	}
	if c.Management.Password != "" {
		if _, err := readFile(c.Management.Password, maxContent); err != nil {
			add(c.Management.Line, unreadable(c.Management.Password, err))
		}
	}
	for _, f := range commands {
		if f.argv != nil {
			add(c.Line(f.option), c.checkProgram(f.argv))
		}
	}
	return out
}

func (c *Common) logOption() string {
	if c.Log.Append {
		return "log-append"
	}
	return "log"
}

// content is a Source with what its content has to look like.
type content struct {
	Source
	check func([]byte) answer
}

func (c *Common) contents() []content {
	list := []content{
		{c.Peers.CA, hasPEM("CERTIFICATE")},
		{c.TLS.Cert, hasPEM("CERTIFICATE")},
		{c.TLS.ExtraCerts, hasPEM("CERTIFICATE")},
		{c.TLS.Key, hasPEM("PRIVATE KEY")},
		{c.TLS.PKCS12, nil},
		{c.TLS.AskPass, nil},
		{c.Wrap.Key, isStaticKey},
	}
	if !c.Peers.CRLDir {
		list = append(list, content{c.Peers.CRL, isCRL})
	}
	return list
}

func (s *Server) contents() []content {
	return append(s.Common.contents(), content{s.Wrap.V2, isServerKey}, content{s.Auth.Token.Secret, hasPEM("OpenVPN auth-token server key")})
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

func isClientKey(b []byte) answer {
	if _, _, err := wrap.ParseClientKey(b); err != nil {
		return refuse("make one with `openvpn --tls-crypt-v2 SERVER-KEY --genkey tls-crypt-v2-client FILE`", "%v", err)
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
func (c *Common) checkPair() answer {
	if !given(c.TLS.Cert) || !given(c.TLS.Key) {
		return fine
	}
	cert, err := c.TLS.Cert.Load()
	if err != nil {
		return fine // reported by itself
	}
	key, err := c.TLS.Key.Load()
	if err != nil {
		return fine
	}
	for rest := key; ; {
		var p *pem.Block
		if p, rest = pem.Decode(rest); p == nil {
			break
		}
		if p.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(p.Headers["Proc-Type"], "ENCRYPTED") {
			if !given(c.TLS.AskPass) {
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
func (c *Common) checkProgram(argv Command) answer {
	path := joinPath(c.Process.Cd, argv[0])
	info, err := os.Stat(path)
	if err != nil {
		return unreadable(path, err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return refuse("chmod +x", "%s is not executable", printable(path))
	}
	return fine
}
