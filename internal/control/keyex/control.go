// SPDX-License-Identifier: Apache-2.0

package keyex

// Control messages, or their first word. What follows is behind a comma.
const (
	PushRequest = "PUSH_REQUEST"
	PushReply   = "PUSH_REPLY"
	AuthFailed  = "AUTH_FAILED"
	CRResponse  = "CR_RESPONSE"
	Exit        = "EXIT"
	Restart     = "RESTART"
	Halt        = "HALT"
	Info        = "INFO"
)

// RestartStay is RESTART that keeps a client from trying its next remote.
const RestartStay = Restart + ",[N]"

// Temporary returns what stands behind AUTH_FAILED when the client shall try
// again later; clients that don't know of that hear the reason alone.
func Temporary(p *PeerInfo, reason string) string {
	if p.Has(ProtoAuthFailTemp) {
		return "TEMP:" + reason
	}
	return reason
}

// SessionExpired returns what stands behind AUTH_FAILED when an auth token is of
// no use any more, so that the client asks for the password again.
func SessionExpired(reason string) string { return "SESSION: " + reason }
