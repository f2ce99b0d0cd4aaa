// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// oids are the names that OpenSSL gives to parts of a subject.
var oids = map[string]string{
	"2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "street",
	"2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.13": "description", "2.5.4.15": "businessCategory",
	"2.5.4.17": "postalCode", "2.5.4.20": "telephoneNumber", "2.5.4.41": "name", "2.5.4.42": "GN", "2.5.4.43": "initials",
	"2.5.4.44": "generationQualifier", "2.5.4.45": "x500UniqueIdentifier", "2.5.4.46": "dnQualifier", "2.5.4.65": "pseudonym",
	"2.5.4.97": "organizationIdentifier", "1.2.840.113549.1.9.1": "emailAddress", "1.2.840.113549.1.9.2": "unstructuredName",
	"0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.3": "mail", "0.9.2342.19200300.100.1.25": "DC",
}

// longNames are OpenSSL's other names for the same.
var longNames = map[string]string{
	"commonName": "CN", "surname": "SN", "countryName": "C", "localityName": "L", "stateOrProvinceName": "ST", "streetAddress": "street",
	"organizationName": "O", "organizationalUnitName": "OU", "givenName": "GN", "userId": "UID", "domainComponent": "DC",
}

func shortName(a pkix.AttributeTypeAndValue) string {
	if n, ok := oids[a.Type.String()]; ok {
		return n
	}
	return a.Type.String()
}

// Subject writes a certificate's subject as OpenVPN does: "C=KG, ST=NA, CN=x",
// parts of one element joined with " + ", and control characters as `\09`.
func Subject(c *x509.Certificate) string {
	var seq pkix.RDNSequence
	if _, err := asn1.Unmarshal(c.RawSubject, &seq); err != nil {
		return ""
	}
	var s strings.Builder
	for i, element := range seq {
		for j, a := range element {
			switch {
			case j > 0:
				s.WriteString(" + ")
			case i > 0:
				s.WriteString(", ")
			}
			s.WriteString(shortName(a) + "=" + escaped(fmt.Sprint(a.Value)))
		}
	}
	text := Name(s.String())
	if strings.HasPrefix(text, "-") { // scripts shall not take it for an option
		text = "_" + text[1:]
	}
	return text
}

// escaped writes control characters and backslashes as OpenSSL does (ASN1_STRFLGS_ESC_CTRL).
func escaped(value string) string {
	var s strings.Builder
	for i := range len(value) {
		switch b := value[i]; {
		case b == '\\':
			s.WriteString(`\\`)
		case b < ' ' || b == 0x7f:
			fmt.Fprintf(&s, `\%02X`, b)
		default:
			s.WriteByte(b)
		}
	}
	return s.String()
}

// Name makes a common name or username harmless: control characters and what is
// no UTF-8 become `_`. It may still hold anything else, also what means
// something to a shell, in a file or in a path.
func Name(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
			return '_'
		}
		return r
	}, s)
}

// FileName returns the name of the file that belongs to a common name in
// client-config-dir, such as `.._x` for `../x`; ok is false if there can be none.
func FileName(cn string) (string, bool) {
	s := strings.ReplaceAll(Name(cn), "/", "_")
	if s == "" || s == "." || s == ".." || len(s) > 255 { // NAME_MAX
		return "", false
	}
	return s, true
}

// field returns the value of a field of a subject, or of an extension; "": there
// is none. Of several values it is the last, as with stock.
func field(c *x509.Certificate, name string) string {
	if ext, ok := strings.CutPrefix(name, "ext:"); ok {
		return alternative(c, ext)
	}
	if name == "serialNumber" { // the certificate's, not the subject's
		return "0x" + strings.ToUpper(hex.EncodeToString(c.SerialNumber.Bytes()))
	}
	if short, ok := longNames[name]; ok {
		name = short
	}
	value := ""
	for _, a := range c.Subject.Names {
		// Stock raises names that are all lower case.
		if strings.EqualFold(shortName(a), name) || a.Type.String() == name {
			value = fmt.Sprint(a.Value)
		}
	}
	return value
}

var alternatives = map[string]asn1.ObjectIdentifier{"subjectAltName": {2, 5, 29, 17}, "issuerAltName": {2, 5, 29, 18}}

// alternative returns the mail address in an extension of alternative names: the
// only kind of them that stock takes.
func alternative(c *x509.Certificate, ext string) (mail string) {
	for _, e := range c.Extensions {
		if !e.Id.Equal(alternatives[ext]) {
			continue
		}
		var names []asn1.RawValue
		if _, err := asn1.Unmarshal(e.Value, &names); err != nil {
			return ""
		}
		for _, n := range names {
			if n.Class == asn1.ClassContextSpecific && n.Tag == 1 { // rfc822Name
				mail = string(n.Bytes)
			}
		}
	}
	return mail
}
