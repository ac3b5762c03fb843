package nfs4server

import (
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// maxSlotRecalls is the maximum number of CB_RECALL_SLOTs that are sent at a time.
const maxSlotRecalls = 256

// recallSlots takes back slots that sessions do not use, and asks clients for slots if other
// sessions want the memory (RFC 8881, Section 20.8). A client without a backchannel learns the
// target from its next SEQUENCE.
func (s *Server) recallSlots() {
	end := time.Now().Add(s.lease)
	for _, session := range s.state.TrimSlots(maxSlotRecalls) {
		target := session.SlotLimits().Target
		c := &callback{client: session.ClientID(), session: session, op: nfs4.CBOpRecallSlot, args: &nfs4.CBRecallSlotArgs{TargetHighestSlotID: target}, isHint: true}
		c.isWanted = func() bool {
			return c.errorReplies.Load() == 0 && time.Now().Before(end) && session.WantsSlots(target)
		}
		s.callbacks.enqueue(c)
	}
}
