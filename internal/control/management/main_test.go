// SPDX-License-Identifier: Apache-2.0

package management

import (
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m) }
