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

// numbers are the sequence numbers of the owners of a client of version 4.0.
type numbers struct {
	next map[string]uint32               // by owner
	of   map[[nfs4.OtherSize]byte]string // the owner of a stateid
}

func newNumbers() *numbers {
	return &numbers{make(map[string]uint32), make(map[[nfs4.OtherSize]byte]string)}
}

// take returns the next number of an owner. Numbers of the COMPOUND that are
// not used come again.
func (n *numbers) take(used map[string]uint32, owner string) uint32 {
	used[owner]++
	return n.next[owner] + used[owner]
}

const lockOwner = "lock-owner "

// number sets the client ID and the sequence numbers in the arguments of an
// operation, and returns the owners.
func (n *numbers) number(used map[string]uint32, id uint64, o op) (owners []string) {
	switch a := o.args.(type) {
	case *nfs4.OpenArgs:
		owner := string(a.Owner.Owner)
		a.Owner.ClientID, a.SeqID = id, n.take(used, owner)
		return []string{owner}
	case *nfs4.CloseArgs:
		a.SeqID = n.take(used, n.of[a.StateID.Other])
		return []string{n.of[a.StateID.Other]}
	case *nfs4.OpenDowngradeArgs:
		a.SeqID = n.take(used, n.of[a.StateID.Other])
		return []string{n.of[a.StateID.Other]}
	case *nfs4.LockUArgs:
		a.SeqID = n.take(used, n.of[a.StateID.Other])
		return []string{n.of[a.StateID.Other]}
	case *nfs4.LockTArgs:
		a.Owner.ClientID = id
	case *nfs4.LockArgs:
		if !a.New {
			a.LockSeqID = n.take(used, n.of[a.StateID.Other])
			return []string{n.of[a.StateID.Other]}
		}
		owner := lockOwner + string(a.Owner.Owner)
		a.Owner.ClientID = id
		a.OpenSeqID, a.LockSeqID = n.take(used, n.of[a.StateID.Other]), n.take(used, owner)
		return []string{n.of[a.StateID.Other], owner}
	}
	return nil
}

// kept are the statuses after which a client uses a sequence number again (RFC
// 7530, Section 9.1.7).
var kept = []nfs4.Status{
	nfs4.ErrStaleClientID, nfs4.ErrStaleStateID, nfs4.ErrBadStateID, nfs4.ErrBadSeqID, nfs4.ErrBadXDR, nfs4.ErrResource,
	nfs4.ErrNoFileHandle, nfs4.ErrMoved,
}

// doNumbered makes a COMPOUND of version 4.0. It confirms opens for which the
// server asks for that. The results count one more operation, in place of
// SEQUENCE.
func (s *session) doNumbered(ops []op) *reply {
	n, used := s.numbers, make(map[string]uint32)
	var sent []op
	owners := make(map[int][]string)
	handles := make(map[int]*nfs4.HandleRes)
	for _, o := range ops {
		owners[len(sent)] = n.number(used, s.client.id, o)
		sent = append(sent, o)
		if o.num == nfs4.OpOpen {
			h := new(nfs4.HandleRes)
			handles[len(sent)] = h
			sent = append(sent, getFH(h))
		}
	}
	rep := s.compound(sent...)
	done := rep.n
	for i := range done {
		st := nfs4.OK
		if i == done-1 {
			st = rep.status
		}
		if handles[i] != nil {
			rep.n--
		}
		if slices.Contains(kept, st) {
			continue
		}
		for _, owner := range owners[i] {
			n.next[owner]++
		}
		switch res := sent[i].res.(type) {
		case *nfs4.OpenRes:
			if st == nfs4.OK {
				n.of[res.StateID.Other] = owners[i][0]
			}
		case *nfs4.LockRes:
			if st == nfs4.OK {
				n.of[res.StateID.Other] = owners[i][len(owners[i])-1]
			}
		}
	}
	rep.n++
	for i := range sent {
		if res, ok := sent[i].res.(*nfs4.OpenRes); ok && i+1 < done && res.Flags&nfs4.OpenConfirm != 0 {
			owner := n.of[res.StateID.Other]
			n.next[owner]++
			var confirmed nfs4.StateIDRes
			s.compound(putFH(slices.Clone(handles[i+1].Object)), openConfirm(res.StateID, n.next[owner], &confirmed)).is(s.t, 2, nfs4.OK)
			res.StateID, res.Flags = confirmed.StateID, res.Flags&^nfs4.OpenConfirm
		}
	}
	return rep
}

// client40 makes a client ID of version 4.0.
func (c *conn) client40(owner string, verifier byte) *client {
	x := &client{conn: c, owner: owner, verifier: nfs4.Verifier{verifier}}
	res := x.set(nfs4.OK)
	x.id = res.ClientID
	x.confirm(nfs4.OK, res.ClientID, res.Confirm)
	return x
}

// setArgs returns SETCLIENTID's arguments.
func (c *client) setArgs() *nfs4.SetClientIDArgs {
	return &nfs4.SetClientIDArgs{
		Verifier: c.verifier, ID: []byte(c.owner), CBProgram: 0x40000000,
		Callback: nfs4.ClientAddr{NetID: []byte("tcp"), Addr: []byte(cmp.Or(c.callback, "127.0.0.1.8.1"))}, CBIdent: callbackIdent,
	}
}

// set sends SETCLIENTID, which must end with a status.
func (c *client) set(want nfs4.Status) (res nfs4.SetClientIDRes) {
	rep := c.compound(op{nfs4.OpSetClientID, c.setArgs(), &res})
	for deadline := time.Now().Add(registerLimit); rep.status == nfs4.ErrDelay && want == nfs4.OK && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // see register
		rep = c.compound(op{nfs4.OpSetClientID, c.setArgs(), &res})
	}
	require.Equal(c.t, want, rep.status, "SETCLIENTID")
	return res
}

// confirm sends SETCLIENTID_CONFIRM, which must end with a status.
func (c *client) confirm(want nfs4.Status, id uint64, confirm nfs4.Verifier) {
	rep := c.compound(op{nfs4.OpSetClientIDConfirm, &nfs4.SetClientIDConfirmArgs{ClientID: id, Confirm: confirm}, status()})
	require.Equal(c.t, want, rep.status, "SETCLIENTID_CONFIRM")
}

func openConfirm(id nfs4.StateID, seqid uint32, res *nfs4.StateIDRes) op {
	return op{nfs4.OpOpenConfirm, &nfs4.OpenConfirmArgs{StateID: id, SeqID: seqid}, res}
}

func renew(id uint64) op { return op{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: id}, status()} }
