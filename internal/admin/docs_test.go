// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestDocumentation holds docs/admin-api.md against the code: it names every
// method, code, event and member, and its examples are what this server takes.
func TestDocumentation(t *testing.T) {
	raw, err := os.ReadFile("../../docs/admin-api.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	names := []string{MethodEvents}
	for m := range methods {
		names = append(names, m)
	}
	for _, name := range names {
		if !strings.Contains(doc, `"method":"`+name+`"`) {
			t.Errorf("no example of method %s", name)
		}
	}
	for _, code := range []Code{CodeInvalid, CodeNotFound, CodeExists, CodeBusy, CodeUnsupported, CodeDenied, CodeTooLarge, CodeVersion, CodeFailed} {
		if !strings.Contains(doc, "| `"+string(code)+"` |") {
			t.Errorf("code %s is not described", code)
		}
	}
	for _, e := range []EventType{EventPeerGone, EventKeyWanted, EventKeyKilled, EventFloat, EventOCCExit, EventNIC, EventOffload} {
		if !strings.Contains(doc, "| `"+string(e)+"` |") {
			t.Errorf("event %s is not described", e)
		}
	}
	for _, v := range []any{Status{}, PeerAdd{}, PeerSet{}, Peer{}, KeyAdd{}, Key{}, NIC{}, Ring{}, Totals{}, Event{}} {
		for _, member := range members(reflect.TypeOf(v)) {
			if !strings.Contains(doc, "`"+member+"`") && !strings.Contains(doc, "."+member+"`") && !strings.Contains(doc, `"`+member+`":`) && !strings.Contains(doc, "`"+member+"[]") && !strings.Contains(doc, "."+member+"[]`") {
				t.Errorf("member %s of %T is not described", member, v)
			}
		}
	}
	inside := false
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inside = line == "```json"
			continue
		}
		if !inside {
			continue
		}
		var req Request
		if err := json.Unmarshal([]byte(line), &req); err != nil || req.Version != Version {
			t.Errorf("%v: %s", err, line)
			continue
		}
		if req.Method == "" || req.Method == MethodEvents {
			continue
		}
		m, ok := methods[req.Method]
		if !ok {
			t.Errorf("no such method: %s", line)
			continue
		}
		// The examples leave the key block out.
		block, err := json.Marshal(&Secret{1})
		if err != nil {
			t.Fatal(err)
		}
		params := strings.Replace(string(req.Params), `"..."`, string(block), 1)
		if req.Method == MethodKeySwap { // the fake's panics
			continue
		}
		if _, err := m.call(t.Context(), newFake(), json.RawMessage(params)); CodeOf(err) == CodeInvalid {
			t.Errorf("%v: %s", err, line)
		}
	}
}

func members(typ reflect.Type) []string {
	var out []string
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out = append(out, name)
		}
	}
	return out
}
