// SPDX-License-Identifier: Apache-2.0

// Package admin is the protocol between a running gateway and the commands
// that ask it something: one JSON object per line over a Unix socket. It
// holds the types of both ends, the server and the client. docs/admin-api.md
// describes it for other programs.
package admin

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Version is the protocol's: a request with another one is refused. Adding
// methods, fields, events and error codes does not change it.
const Version = 1

// MaxLine is the size in bytes of the longest request line, newline included.
// A key block needs 350, a route 50: this is room for 20,000 routes.
const MaxLine = 1 << 20

// Request is one line from the client.
type Request struct {
	Version int `json:"version"`
	// ID comes back with the answer, untouched: a number, a string or nothing.
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Response is one line from the server: Result or Error.
type Response struct {
	Version int             `json:"version"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Code classifies an error for programs; people read the message.
type Code string

// The codes.
const (
	// CodeInvalid: the request makes no sense, whatever the gateway's state.
	CodeInvalid Code = "invalid"
	// CodeNotFound: no such peer, key, slot, NIC or method.
	CodeNotFound Code = "not_found"
	// CodeExists: the peer, prefix, key or key id is taken.
	CodeExists Code = "exists"
	// CodeBusy: something else holds what is needed, such as an XDP slot.
	CodeBusy Code = "busy"
	// CodeUnsupported: the kernel or the device cannot do it.
	CodeUnsupported Code = "unsupported"
	// CodeDenied: the gateway lacks a capability.
	CodeDenied Code = "denied"
	// CodeTooLarge: the request line exceeds MaxLine.
	CodeTooLarge Code = "too_large"
	// CodeVersion: the request has another version than Version.
	CodeVersion Code = "version"
	// CodeFailed: anything else.
	CodeFailed Code = "failed"
)

// Error is an answer that isn't a result.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Errorf returns an *Error; %w is not understood.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the *Error that err wraps; CodeFailed when it
// wraps none, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeFailed
}
