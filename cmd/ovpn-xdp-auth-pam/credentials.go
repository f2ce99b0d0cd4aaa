// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFile bounds the file in bytes: user and password have up to 4,095 each.
const maxFile = 2 * 4096

// credentials are what a client sent.
type credentials struct {
	user, password string
	// response answers a static challenge of the client's configuration;
	// challenged says that there was one.
	response   string
	challenged bool
}

// readCredentials reads the file that auth-user-pass-verify via-file hands over: the user
// in one line, the password in another.
func readCredentials(path string) (credentials, error) {
	f, err := os.Open(path)
	if err != nil {
		return credentials{}, fmt.Errorf("read user and password: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return credentials{}, fmt.Errorf("read user and password: %w", err)
	}
	return parseCredentials(string(b))
}

func parseCredentials(text string) (c credentials, err error) {
	user, rest, ok := strings.Cut(text, "\n")
	password, rest, _ := strings.Cut(rest, "\n")
	switch {
	case len(text) > maxFile:
		return c, fmt.Errorf("read user and password: more than %d bytes", maxFile)
	case !ok || rest != "":
		return c, errors.New("read user and password: want two lines")
	case user == "":
		return c, errors.New("read user and password: no user")
	case strings.ContainsFunc(user, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.Contains(password, "\x00"):
		return c, errors.New("read user and password: control characters in it")
	}
	c = credentials{user: user, password: password}
	const mark = "SCRV1:" // static challenge, version 1
	if !strings.HasPrefix(password, mark) {
		return c, nil
	}
	first, second, _ := strings.Cut(password[len(mark):], ":")
	p, err1 := base64.StdEncoding.DecodeString(first)
	r, err2 := base64.StdEncoding.DecodeString(second)
	if err1 != nil || err2 != nil {
		return c, nil // a password that merely looks like it
	}
	if strings.Contains(string(p)+string(r), "\x00") {
		return credentials{}, errors.New("read user and password: control characters in it")
	}
	c.password, c.response, c.challenged = string(p), string(r), true
	return c, nil
}
