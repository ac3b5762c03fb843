package nfs4test

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// Version 4.0 has no sessions. A session of minor version 0 is a client ID and
// the sequence numbers of the client's owners, so that scenarios of operations
// which all minor versions have run by each.

// ownerSeqIDs tracks the sequence numbers of an NFSv4.0 client's owners.
type ownerSeqIDs struct {
	next    map[string]uint32               // by owner
	ownerOf map[[nfs4.OtherSize]byte]string // the owner of a stateid
}

func newOwnerSeqIDs() *ownerSeqIDs {
	return &ownerSeqIDs{make(map[string]uint32), make(map[[nfs4.OtherSize]byte]string)}
}

// takeSeqID returns an owner's next number. The numbers that a COMPOUND did not
// use up are given again.
func (n *ownerSeqIDs) takeSeqID(used map[string]uint32, owner string) uint32 {
	used[owner]++
	return n.next[owner] + used[owner]
}

const lockOwner = "lock-owner "

// fillSeqIDs sets the client ID and the sequence numbers in an operation's
// arguments, and returns the owners.
func (n *ownerSeqIDs) fillSeqIDs(used map[string]uint32, id uint64, o op) (owners []string) {
	switch a := o.args.(type) {
	case *nfs4.OpenArgs:
		owner := string(a.Owner.Owner)
		a.Owner.ClientID, a.SeqID = id, n.takeSeqID(used, owner)
		return []string{owner}
	case *nfs4.CloseArgs:
		a.SeqID = n.takeSeqID(used, n.ownerOf[a.StateID.Other])
		return []string{n.ownerOf[a.StateID.Other]}
	case *nfs4.OpenDowngradeArgs:
		a.SeqID = n.takeSeqID(used, n.ownerOf[a.StateID.Other])
		return []string{n.ownerOf[a.StateID.Other]}
	case *nfs4.LockUArgs:
		a.SeqID = n.takeSeqID(used, n.ownerOf[a.StateID.Other])
		return []string{n.ownerOf[a.StateID.Other]}
	case *nfs4.LockTArgs:
		a.Owner.ClientID = id
	case *nfs4.LockArgs:
		if !a.New {
			a.LockSeqID = n.takeSeqID(used, n.ownerOf[a.StateID.Other])
			return []string{n.ownerOf[a.StateID.Other]}
		}
		owner := lockOwner + string(a.Owner.Owner)
		a.Owner.ClientID = id
		a.OpenSeqID, a.LockSeqID = n.takeSeqID(used, n.ownerOf[a.StateID.Other]), n.takeSeqID(used, owner)
		return []string{n.ownerOf[a.StateID.Other], owner}
	}
	return nil
}

// seqIDUnusedStatuses are the statuses that do not use up a sequence number (RFC 7530,
// Section 9.1.7).
var seqIDUnusedStatuses = []nfs4.Status{
	nfs4.ErrStaleClientID, nfs4.ErrStaleStateID, nfs4.ErrBadStateID, nfs4.ErrBadSeqID, nfs4.ErrBadXDR, nfs4.ErrResource,
	nfs4.ErrNoFileHandle, nfs4.ErrMoved,
}

// callMinor0 sends an NFSv4.0 COMPOUND, and confirms opens if the server
// requires it. The results count one more operation, in place of SEQUENCE.
func (s *session) callMinor0(ops []op) *reply {
	n, used := s.seqIDs, make(map[string]uint32)
	var sent []op
	owners := make(map[int][]string)
	handles := make(map[int]*nfs4.HandleRes)
	for _, o := range ops {
		owners[len(sent)] = n.fillSeqIDs(used, s.client.id, o)
		sent = append(sent, o)
		if o.num == nfs4.OpOpen {
			h := new(nfs4.HandleRes)
			handles[len(sent)] = h
			sent = append(sent, getFH(h))
		}
	}
	rep := s.callCompound(sent...)
	done := rep.resultCount
	for i := range done {
		st := nfs4.OK
		if i == done-1 {
			st = rep.status
		}
		if handles[i] != nil {
			rep.resultCount--
		}
		if slices.Contains(seqIDUnusedStatuses, st) {
			continue
		}
		for _, owner := range owners[i] {
			n.next[owner]++
		}
		switch res := sent[i].res.(type) {
		case *nfs4.OpenRes:
			if st == nfs4.OK {
				n.ownerOf[res.StateID.Other] = owners[i][0]
			}
		case *nfs4.LockRes:
			if st == nfs4.OK {
				n.ownerOf[res.StateID.Other] = owners[i][len(owners[i])-1]
			}
		}
	}
	rep.resultCount++
	for i := range sent {
		if res, ok := sent[i].res.(*nfs4.OpenRes); ok && i+1 < done && res.Flags&nfs4.OpenConfirm != 0 {
			owner := n.ownerOf[res.StateID.Other]
			n.next[owner]++
			var confirmed nfs4.StateIDRes
			s.callCompound(putFH(slices.Clone(handles[i+1].Object)), openConfirmOp(res.StateID, n.next[owner], &confirmed)).checkStatus(s.t, 2, nfs4.OK)
			res.StateID, res.Flags = confirmed.StateID, res.Flags&^nfs4.OpenConfirm
		}
	}
	return rep
}

// newClientID40 creates and confirms an NFSv4.0 client ID.
func (c *conn) newClientID40(owner string, verifier byte) *client {
	x := &client{conn: c, owner: owner, verifier: nfs4.Verifier{verifier}}
	res := x.setClientID(nfs4.OK)
	x.id = res.ClientID
	x.confirmClientID(nfs4.OK, res.ClientID, res.Confirm)
	return x
}

// setClientIDArgs returns SETCLIENTID's arguments.
func (c *client) setClientIDArgs() *nfs4.SetClientIDArgs {
	return &nfs4.SetClientIDArgs{
		Verifier: c.verifier, ID: []byte(c.owner), CBProgram: 0x40000000,
		Callback: nfs4.ClientAddr{NetID: []byte("tcp"), Addr: []byte(cmp.Or(c.callback, "127.0.0.1.8.1"))}, CBIdent: callbackIdent,
	}
}

// setClientID sends SETCLIENTID, and checks the status.
func (c *client) setClientID(want nfs4.Status) (res nfs4.SetClientIDRes) {
	rep := c.callCompound(op{nfs4.OpSetClientID, c.setClientIDArgs(), &res})
	for deadline := time.Now().Add(registerLimit); rep.status == nfs4.ErrDelay && want == nfs4.OK && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // see registerOwner
		rep = c.callCompound(op{nfs4.OpSetClientID, c.setClientIDArgs(), &res})
	}
	require.Equal(c.t, want, rep.status, "SETCLIENTID")
	return res
}

// confirmClientID sends SETCLIENTID_CONFIRM, and checks the status.
func (c *client) confirmClientID(want nfs4.Status, id uint64, confirm nfs4.Verifier) {
	rep := c.callCompound(op{nfs4.OpSetClientIDConfirm, &nfs4.SetClientIDConfirmArgs{ClientID: id, Confirm: confirm}, statusRes()})
	require.Equal(c.t, want, rep.status, "SETCLIENTID_CONFIRM")
}

func openConfirmOp(id nfs4.StateID, seqid uint32, res *nfs4.StateIDRes) op {
	return op{nfs4.OpOpenConfirm, &nfs4.OpenConfirmArgs{StateID: id, SeqID: seqid}, res}
}

func renewOp(id uint64) op { return op{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: id}, statusRes()} }
