// SPDX-License-Identifier: Apache-2.0

//go:build !pam

package main

import "errors"

func askPAM(question, func(string)) error {
	return errors.New("built without PAM: go build -tags pam")
}
