// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// errTooLong: a line exceeded MaxLine; the reader stands behind it.
var errTooLong = errors.New("line too long")

// converse answers one connection's requests in their order.
func (s *Server) converse(conn *net.UnixConn, log *slog.Logger) {
	r := bufio.NewReader(conn)
	for {
		line, err := readLine(r, MaxLine)
		var res Response
		switch {
		case errors.Is(err, errTooLong):
			res = Response{Version: Version, Error: Errorf(CodeTooLarge, "a request has at most %d bytes", MaxLine)}
		case err != nil:
			return
		case len(bytes.TrimSpace(line)) == 0:
			continue
		default:
			var stream bool
			res, stream = s.answer(line, log)
			clear(line)
			if stream {
				s.stream(conn, r, res)
				return
			}
		}
		_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err := writeLine(conn, res); err != nil {
			log.Debug("admin socket: answer not delivered", "error", err)
			return
		}
	}
}

// answer carries out one request. stream says that the connection is to
// carry events from now on, after res.
func (s *Server) answer(line []byte, log *slog.Logger) (res Response, stream bool) {
	res.Version = Version
	var req Request
	if err := json.Unmarshal(line, &req); err != nil {
		res.Error = Errorf(CodeInvalid, "request: %s", decodeMessage(err))
		return res, false
	}
	defer clear(req.Params)
	if len(req.ID) > 0 && (req.ID[0] == '{' || req.ID[0] == '[') || len(req.ID) > 128 {
		res.Error = invalidError("request: \"id\" is a number or a short string")
		return res, false
	}
	res.ID = req.ID
	if req.Version != Version {
		res.Error = Errorf(CodeVersion, "version %d: this gateway speaks version %d", req.Version, Version)
		return res, false
	}
	if req.Method == MethodEvents {
		var p none
		if err := decodeParams(req.Params, nil, &p); err != nil {
			res.Error = asError(err)
			return res, false
		}
		res.Result = json.RawMessage("{}")
		return res, true
	}
	m, ok := methods[req.Method]
	if !ok {
		res.Error = Errorf(CodeNotFound, "method %q: this gateway has none of this name", clip(req.Method))
		return res, false
	}
	result, err := m.call(s.ctx, s.handler, req.Params)
	if err == nil {
		res.Result, err = json.Marshal(result)
	}
	if err != nil {
		res.Result, res.Error = nil, asError(err)
	}
	if m.changes {
		log.Info("admin request", "method", req.Method, "outcome", outcome(res.Error))
	}
	return res, false
}

func invalidError(message string) *Error { return &Error{Code: CodeInvalid, Message: message} }

func outcome(e *Error) string {
	if e == nil {
		return "done"
	}
	return string(e.Code)
}

// asError keeps an *Error's code and the whole text around it.
func asError(err error) *Error {
	return &Error{Code: CodeOf(err), Message: err.Error()}
}

// stream writes res and then events until the client or the server closes.
func (s *Server) stream(conn *net.UnixConn, r *bufio.Reader, res Response) {
	// Subscribed before the answer: what happens after it is not missed.
	sub := s.handler.Subscribe()
	defer sub.Close()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if writeLine(conn, res) != nil {
		return
	}
	_ = conn.SetWriteDeadline(time.Time{})

	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer cancel()
		awaitHangup(ctx, conn, r)
	}()
	// A blocked write ends when ctx does.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Now()) })
	defer stop()
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			break
		}
		if writeLine(conn, e) != nil {
			break
		}
	}
	// Ends awaitHangup, which reads from the connection.
	_ = conn.SetReadDeadline(time.Now())
}

// awaitHangup returns when the client closed the connection or ctx ended.
// A client that only shut down its sending side (`echo ... | nc -U`) still
// listens: then nothing but POLLHUP tells that it is gone, and Go's poller
// does not report that.
func awaitHangup(ctx context.Context, conn *net.UnixConn, r *bufio.Reader) {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		gone := false
		if err := raw.Control(func(fd uintptr) {
			p := []unix.PollFd{{Fd: int32(fd)}}
			n, err := unix.Poll(p, 0)
			gone = err == nil && n > 0 && p[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
		}); err != nil || gone {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// readLine returns the next line without its newline; the bytes are the
// caller's. A last line without newline counts. Of a line longer than most
// bytes nothing is kept.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if !tooLong && len(line)+len(part) > most {
			clear(line)
			line, tooLong = nil, true
		}
		if !tooLong {
			grown := append(line, part...)
			if len(line) > 0 && &grown[0] != &line[0] {
				clear(line) // it may hold part of a key
			}
			line = grown
		}
		clear(part)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		case tooLong:
			return nil, errTooLong
		default:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		}
	}
}

// writeLine writes v as one line in one write.
func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
