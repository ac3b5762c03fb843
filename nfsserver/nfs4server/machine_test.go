package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestMachineCredential checks SP4_MACH_CRED: only the client's machine credential may
// maintain its client ID and its sessions, and bind connections to them, by calls whose
// arguments are protected. Users may send all other calls.
//
// R8881-2.4.3-3, R8881-2.10.8.3-1, R8881-18.35.3-9, R8881-18.35.3-10, R8881-18.46.3-3.
func TestMachineCredential(t *testing.T) {
	machine := rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5i, Principal: "host/a@R", UID: rpcmsg.Nobody, GID: rpcmsg.Nobody, Anonymous: true}
	sealed, signed, other, user := machine, machine, machine, machine
	sealed.Flavor, signed.Flavor = rpcmsg.AuthKrb5p, rpcmsg.AuthKrb5
	other.Principal = "host/b@R" // also nobody
	user.Principal, user.UID, user.Anonymous = "alice@R", 1000, false

	g := newTestServer(t)
	wanted := nfs4.BitmapOf(nfs4.OpExchangeID, nfs4.OpCreateSession, nfs4.OpDestroySession, nfs4.OpBindConnToSession, nfs4.OpDestroyClientID)
	asked := wanted
	asked.Words[1] |= 1 << (nfs4.OpWrite - 32) // cannot be restricted to the machine credential
	exchange := func(by rpcmsg.Cred, flags uint32) (res nfs4.ExchangeIDRes, st nfs4.Status) {
		g.cred = by
		st, _ = g.sendRaw(step{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{
			Owner: []byte("c"), Flags: flags,
			Protect: nfs4.StateProtect{How: nfs4.ProtectMachCred, MustEnforce: asked, MustAllow: nfs4.BitmapOf(nfs4.OpClose, nfs4.OpTestStateID)},
		}, &res})
		return res, st
	}
	_, st := exchange(signed, 0)
	assert.Equal(t, nfs4.ErrInval, st, "arguments that are not protected")
	id, st := exchange(machine, 0)
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.StateProtect{How: nfs4.ProtectMachCred, MustEnforce: wanted, MustAllow: nfs4.BitmapOf(nfs4.OpTestStateID)}, id.Protect)

	create := func(by rpcmsg.Cred) (res nfs4.CreateSessionRes, st nfs4.Status) {
		g.cred = by
		st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: channel, SecParms: nfs4.SecParms{None: true}}, &res})
		return res, st
	}
	for _, by := range []rpcmsg.Cred{signed, other, user} {
		_, st = create(by)
		assert.Equal(t, nfs4.ErrWrongCred, st, by)
	}
	cs, st := create(sealed)
	require.Equal(t, nfs4.OK, st)
	g.session, g.seq = cs.Session, 0

	// Users may use the session's connection.
	g.cred = user
	st, _ = g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
	assert.Equal(t, nfs4.OK, st)
	for _, by := range []rpcmsg.Cred{signed, other, user} {
		_, st = exchange(by, nfs4.ExchangeUpdConfirmed)
		if by.Flavor == rpcmsg.AuthKrb5 {
			assert.Equal(t, nfs4.ErrInval, st)
		} else {
			assert.Equal(t, nfs4.ErrPerm, st)
		}
		g.cred = by
		_, st = g.exchangeID("c", 0, 0) // without protection
		assert.Equal(t, nfs4.ErrClidInUse, st)
	}
	same, st := exchange(sealed, 0)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, []any{id.ClientID, id.Protect}, []any{same.ClientID, same.Protect})

	// Another connection joins by the machine alone.
	there := g.onConnection("192.0.2.1:800", "tcp")
	there.cred = user
	st, _ = there.sendSteps(putRootStep())
	assert.Equal(t, nfs4.ErrConnNotBoundToSession, st)
	there.seq--
	bind := step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindFore}, new(nfs4.BindConnRes)}
	for _, by := range []rpcmsg.Cred{signed, other, user} {
		there.cred = by
		st, _ = there.sendRaw(bind)
		assert.Equal(t, nfs4.ErrWrongCred, st, by)
	}
	there.cred = sealed
	st, _ = there.sendRaw(bind)
	assert.Equal(t, nfs4.OK, st)
	there.cred = user
	st, _ = there.sendSteps(putRootStep())
	assert.Equal(t, nfs4.OK, st)

	for _, end := range []step{
		{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()},
		{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: id.ClientID}, newStatusRes()},
	} {
		for _, by := range []rpcmsg.Cred{signed, other, user} {
			g.cred = by
			st, _ = g.sendRaw(end)
			assert.Equal(t, nfs4.ErrWrongCred, st, "%s by %v", end.op, by)
		}
		g.cred = machine
		st, _ = g.sendRaw(end)
		assert.Equal(t, nfs4.OK, st, end.op)
	}
}

// TestMachineCredentialInAnyCase checks that a client with SP4_MACH_CRED that names no
// operations has its sessions and its client ID maintained by its machine all the same,
// and is told so.
//
// R8881-2.10.8.3-1.
func TestMachineCredentialInAnyCase(t *testing.T) {
	machine := rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5p, Principal: "host/a@R", UID: rpcmsg.Nobody, GID: rpcmsg.Nobody, Anonymous: true}
	user := rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5p, Principal: "alice@R", UID: 1000, GID: 1000}
	g := newTestServer(t)
	g.cred = machine
	var id nfs4.ExchangeIDRes
	st, _ := g.sendRaw(step{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("c"), Protect: nfs4.StateProtect{How: nfs4.ProtectMachCred}}, &id})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.BitmapOf(nfs4.OpCreateSession, nfs4.OpDestroySession, nfs4.OpBindConnToSession, nfs4.OpDestroyClientID), id.Protect.MustEnforce)
	create := func() (res nfs4.CreateSessionRes, st nfs4.Status) {
		st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: channel, SecParms: nfs4.SecParms{None: true}}, &res})
		return res, st
	}
	cs, st := create()
	require.Equal(t, nfs4.OK, st)
	g.session, g.seq = cs.Session, 0
	g.cred = user
	_, st = create()
	assert.Equal(t, nfs4.ErrWrongCred, st, "a retry, which would tell the session's ID")
	there := g.onConnection("192.0.2.1:800", "tcp")
	there.cred = user
	st, _ = there.sendSteps(putRootStep())
	assert.Equal(t, nfs4.ErrConnNotBoundToSession, st)
	st, _ = there.sendRaw(step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindFore}, new(nfs4.BindConnRes)})
	assert.Equal(t, nfs4.ErrWrongCred, st)
	st, _ = g.sendRaw(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()})
	assert.Equal(t, nfs4.ErrWrongCred, st)
	st, _ = g.sendSteps(putRootStep())
	assert.Equal(t, nfs4.OK, st, "the session is there")
	st, _ = g.sendRaw(step{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: id.ClientID}, newStatusRes()})
	assert.Equal(t, nfs4.ErrWrongCred, st)
}
