// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"fmt"
	"hash"
	"slices"
	"strings"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/blake2s"
	//lint:ignore SA1019 a peer's auth option may name it
	"golang.org/x/crypto/ripemd160"
)

// Digest is the hash of tls-auth's HMAC. The zero value is none.
type Digest struct {
	name string
	new  func() hash.Hash
}

// digests are those that `openvpn --show-digests` lists, by the same names, but
// for SM3 and the extendable ones (SHAKE, KECCAK-KMAC), which HMAC does not take.
var digests = []Digest{
	{"SHA1", sha1.New},
	{"MD5", md5.New},
	{"MD5-SHA1", func() hash.Hash { return md5sha1{md5.New(), sha1.New()} }},
	{"RIPEMD160", ripemd160.New},
	{"SHA224", sha256.New224},
	{"SHA256", sha256.New},
	{"SHA384", sha512.New384},
	{"SHA512", sha512.New},
	{"SHA512-224", sha512.New512_224},
	{"SHA512-256", sha512.New512_256},
	{"SHA3-224", func() hash.Hash { return sha3.New224() }},
	{"SHA3-256", func() hash.Hash { return sha3.New256() }},
	{"SHA3-384", func() hash.Hash { return sha3.New384() }},
	{"SHA3-512", func() hash.Hash { return sha3.New512() }},
	{"BLAKE2b512", func() hash.Hash { h, _ := blake2b.New512(nil); return h }},
	{"BLAKE2s256", func() hash.Hash { h, _ := blake2s.New256(nil); return h }},
}

// aliases are other names that OpenSSL takes.
var aliases = map[string]string{
	"SHA": "SHA1", "SHA-1": "SHA1", "SHA2-224": "SHA224", "SHA2-256": "SHA256", "SHA2-384": "SHA384", "SHA2-512": "SHA512",
	"SHA-224": "SHA224", "SHA-256": "SHA256", "SHA-384": "SHA384", "SHA-512": "SHA512",
	"SHA2-512/256": "SHA512-256", "SHA512/256": "SHA512-256", "SHA-512/256": "SHA512-256",
	"SHA2-512/224": "SHA512-224", "SHA512/224": "SHA512-224", "SHA-512/224": "SHA512-224",
	"RIPEMD": "RIPEMD160", "RMD160": "RIPEMD160", "RIPEMD-160": "RIPEMD160", "BLAKE2B-512": "BLAKE2B512", "BLAKE2S-256": "BLAKE2S256",
	"RSA-SHA1": "SHA1", "RSA-SHA256": "SHA256", "RSA-SHA384": "SHA384", "RSA-SHA512": "SHA512", "RSA-SHA224": "SHA224", "RSA-MD5": "MD5",
}

// ParseDigest finds a digest by OpenSSL's name for it, in any case. The error
// names those that there are.
func ParseDigest(name string) (Digest, error) {
	upper := strings.ToUpper(name)
	if to, ok := aliases[upper]; ok {
		upper = to
	}
	i := slices.IndexFunc(digests, func(d Digest) bool { return strings.ToUpper(d.name) == upper })
	if i < 0 {
		return Digest{}, fmt.Errorf("digest %q is not supported, only %s", name, names())
	}
	return digests[i], nil
}

func names() string {
	list := make([]string, len(digests))
	for i, d := range digests {
		list[i] = d.name
	}
	return strings.Join(list, ", ")
}

// String returns the name as OpenVPN shows it.
func (d Digest) String() string { return d.name }

// Size is the length in bytes of its output, and of the HMAC key.
func (d Digest) Size() int { return d.new().Size() }

// md5sha1 is the two digests of the same bytes, one behind the other.
type md5sha1 struct{ md5, sha1 hash.Hash }

func (d md5sha1) Write(p []byte) (int, error) {
	d.md5.Write(p)
	return d.sha1.Write(p)
}

func (d md5sha1) Sum(b []byte) []byte { return d.sha1.Sum(d.md5.Sum(b)) }
func (d md5sha1) Reset()              { d.md5.Reset(); d.sha1.Reset() }
func (d md5sha1) Size() int           { return d.md5.Size() + d.sha1.Size() }
func (d md5sha1) BlockSize() int      { return d.sha1.BlockSize() }
