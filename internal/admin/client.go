// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// maxAnswer is the size in bytes of the longest answer a client takes; a
// peer needs about 700 bytes, so this is room for 350,000 of them.
const maxAnswer = 256 << 20

// Client is one connection to a gateway. Not safe for concurrent use.
type Client struct {
	conn net.Conn
	r    *bufio.Reader
	id   uint64
}

// Dial connects to the admin socket at path.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to gateway: %w", err)
	}
	return &Client{conn: conn, r: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Call makes one request and fills result, unless it is nil. What the gateway
// refuses comes back as *Error.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	res, err := c.roundTrip(ctx, method, params)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("ask gateway for %s: %w", method, err)
	}
	if res.Error != nil {
		return res.Error
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(res.Result, result); err != nil {
		return fmt.Errorf("read answer to %s: %w", method, err)
	}
	return nil
}

func (c *Client) roundTrip(ctx context.Context, method string, params any) (*Response, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Now()) })
	defer stop()
	c.id++
	id := fmt.Appendf(nil, "%d", c.id)
	req := Request{Version: Version, ID: id, Method: method}
	if params != nil {
		raw, err := json.Marshal(params)
		if err != nil {
			return nil, err
		}
		defer clear(raw)
		req.Params = raw
	}
	line, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	line = append(line, '\n')
	defer clear(line)
	_, writeErr := c.conn.Write(line)
	// A gateway that refuses the connection answers without reading.
	answer, err := readLine(c.r, maxAnswer)
	if err != nil {
		if writeErr != nil {
			err = writeErr
		}
		return nil, err
	}
	var res Response
	if err := json.Unmarshal(answer, &res); err != nil {
		return nil, fmt.Errorf("not an answer: %w", err)
	}
	if res.Error == nil && !bytes.Equal(res.ID, id) {
		return nil, errors.New("answer to another request")
	}
	return &res, nil
}

// Status asks for the state of everything.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	var s Status
	return &s, c.Call(ctx, MethodStatus, nil, &s)
}

// Events turns the connection into a stream and calls fn for every event, with
// the line as it came, without its newline and valid during the call only. It
// returns when fn returns an error, ctx ends (nil) or the gateway goes away.
func (c *Client) Events(ctx context.Context, fn func(line []byte, e *Event) error) error {
	if err := c.Call(ctx, MethodEvents, nil, nil); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Now()) })
	defer stop()
	for {
		line, err := readLine(c.r, MaxLine)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read events: gateway went away: %w", err)
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if err := fn(line, &e); err != nil {
			return err
		}
	}
}
