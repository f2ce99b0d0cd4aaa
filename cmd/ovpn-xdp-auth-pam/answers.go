// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"unicode"
)

// errNoAnswer ends a conversation in which PAM asks for what the client has not sent.
var errNoAnswer = errors.New("no answer to this prompt")

// rule answers prompts that begin with a text.
type rule struct{ prompt, answer string }

// answers answer what PAM's modules ask. They belong to one conversation.
type answers struct {
	credentials
	commonName string
	rules      []rule // none: by the kind of the prompt

	first string // the first hidden prompt
	asked bool
}

// reply answers a prompt; hidden is one whose answer is not to be seen.
func (a *answers) reply(prompt string, hidden bool) (string, error) {
	if len(a.rules) > 0 {
		return a.byRule(prompt)
	}
	if !hidden {
		return a.user, nil
	}
	// Modules that follow each other may ask for the same password again. With a static
	// challenge, whatever else is asked for is its response.
	if !a.asked {
		a.first, a.asked = prompt, true
	}
	if a.challenged && prompt != a.first {
		return a.response, nil
	}
	return a.password, nil
}

// byRule answers by the first rule whose text the prompt begins with, whatever the
// case; what comes before the prompt's first letter or digit does not count.
func (a *answers) byRule(prompt string) (string, error) {
	prompt = strings.TrimLeftFunc(prompt, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, r := range a.rules {
		if n := len(r.prompt); len(prompt) < n || !strings.EqualFold(prompt[:n], r.prompt) {
			continue
		}
		// One pass: what a client sent is not looked through for such words again.
		return strings.NewReplacer("USERNAME", a.user, "PASSWORD", a.password, "COMMONNAME", a.commonName, "OTP", a.response).Replace(r.answer), nil
	}
	return "", errNoAnswer
}
