// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
)

var (
	errNoPassphrase    = errors.New("it has a pass phrase; give askpass FILE, or write it without one: openssl pkey -in KEY -out NEW")
	errWrongPassphrase = errors.New("wrong pass phrase in the file of askpass")
)

// decryptKey returns a PEM file with private keys readable. Keys without pass
// phrase stay as they are.
func decryptKey(file []byte, passphrase string) ([]byte, error) {
	var out bytes.Buffer
	for {
		b, rest := pem.Decode(file)
		if b == nil {
			return out.Bytes(), nil
		}
		file = rest
		var err error
		switch {
		case b.Type == "ENCRYPTED PRIVATE KEY":
			if passphrase == "" {
				return nil, errNoPassphrase
			}
			b.Type = "PRIVATE KEY"
			b.Bytes, err = decryptPKCS8(b.Bytes, passphrase)
		//lint:ignore SA1019 operators have such files, from OpenSSL before 3.0; stock reads them
		case x509.IsEncryptedPEMBlock(b):
			if passphrase == "" {
				return nil, errNoPassphrase
			}
			//lint:ignore SA1019 as above
			b.Bytes, err = x509.DecryptPEMBlock(b, []byte(passphrase))
			b.Headers = nil
			if errors.Is(err, x509.IncorrectPasswordError) {
				err = errWrongPassphrase
			}
		}
		if err != nil {
			return nil, err
		}
		if err := pem.Encode(&out, b); err != nil {
			return nil, err
		}
	}
}

// The structures of PKCS #8 (RFC 5958, 3) and PBES2 (RFC 8018, A.4).
type (
	encryptedKey struct {
		Algo      pkix.AlgorithmIdentifier
		Encrypted []byte
	}
	pbes2 struct{ KDF, Cipher pkix.AlgorithmIdentifier }
	kdf   struct {
		Salt       []byte
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

// maxIterations bounds the time that a file can take: OpenSSL writes 2048, and
// 10 million are some seconds.
const maxIterations = 10_000_000

// prfs are PBKDF2's functions: hmacWithSHA1 (the default), SHA256, 384, 512.
var prfs = map[string]func() hash.Hash{
	"": sha1.New, "1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New,
	"1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New,
}

// ciphers are block ciphers in CBC mode with their key length.
var ciphers = map[string]struct {
	key int
	new func([]byte) (cipher.Block, error)
}{
	"2.16.840.1.101.3.4.1.2": {16, aes.NewCipher}, "2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher}, "1.2.840.113549.3.7": {24, des.NewTripleDESCipher},
}

// decryptPKCS8 opens an ENCRYPTED PRIVATE KEY with PBES2 and PBKDF2, which is
// what OpenSSL writes unless told otherwise.
func decryptPKCS8(der []byte, passphrase string) ([]byte, error) {
	const remedy = "write it anew: openssl pkcs8 -topk8 -v2 aes256 -in KEY -out NEW"
	var e encryptedKey
	if _, err := asn1.Unmarshal(der, &e); err != nil {
		return nil, fmt.Errorf("parse encrypted key: %w", err)
	}
	if e.Algo.Algorithm.String() != "1.2.840.113549.1.5.13" {
		return nil, fmt.Errorf("it is encrypted with %s, and only PBES2 is read; %s", e.Algo.Algorithm, remedy)
	}
	var s pbes2
	var k kdf
	if _, err := asn1.Unmarshal(e.Algo.Parameters.FullBytes, &s); err != nil {
		return nil, fmt.Errorf("parse encrypted key: %w", err)
	}
	if s.KDF.Algorithm.String() != "1.2.840.113549.1.5.12" {
		return nil, fmt.Errorf("its key derivation %s is unknown; %s", s.KDF.Algorithm, remedy)
	}
	if _, err := asn1.Unmarshal(s.KDF.Parameters.FullBytes, &k); err != nil {
		return nil, fmt.Errorf("parse encrypted key: %w", err)
	}
	prf, known := prfs[k.PRF.Algorithm.String()]
	c, knownCipher := ciphers[s.Cipher.Algorithm.String()]
	if !known || !knownCipher || k.Iterations < 1 || k.Iterations > maxIterations {
		return nil, fmt.Errorf("its cipher %s, function %s or %d iterations are not possible; %s", s.Cipher.Algorithm, k.PRF.Algorithm, k.Iterations, remedy)
	}
	var iv []byte
	if _, err := asn1.Unmarshal(s.Cipher.Parameters.FullBytes, &iv); err != nil {
		return nil, fmt.Errorf("parse encrypted key: %w", err)
	}
	key, err := pbkdf2.Key(prf, passphrase, k.Salt, k.Iterations, c.key)
	if err != nil {
		return nil, fmt.Errorf("derive key from pass phrase: %w", err)
	}
	block, err := c.new(key)
	if err != nil {
		return nil, err
	}
	return openCBC(block, iv, e.Encrypted)
}

// openCBC decrypts and takes the padding off (RFC 8018, 6.1.1).
func openCBC(block cipher.Block, iv, text []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(text) == 0 || len(text)%size != 0 {
		return nil, errors.New("parse encrypted key: wrong length")
	}
	plain := make([]byte, len(text))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, text)
	pad := int(plain[len(plain)-1])
	if pad == 0 || pad > size {
		return nil, errWrongPassphrase
	}
	for _, b := range plain[len(plain)-pad:] {
		if int(b) != pad {
			return nil, errWrongPassphrase
		}
	}
	plain = plain[:len(plain)-pad]
	// One wrong pass phrase in 256 has a valid padding.
	if raw := (asn1.RawValue{}); len(plain) == 0 || !wellFormed(plain, &raw) {
		return nil, errWrongPassphrase
	}
	return plain, nil
}

func wellFormed(der []byte, into *asn1.RawValue) bool {
	rest, err := asn1.Unmarshal(der, into)
	return err == nil && len(rest) == 0
}
