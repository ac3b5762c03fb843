package nfsrdma

import (
	"bytes"
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
)

// A fakeKDC establishes security contexts for both sides, all with one key, for host/a@R.
type fakeKDC struct{ t *testing.T }

func (k fakeKDC) context(acceptor bool) gss.Context {
	c, err := krb5.NewContext(krb5.Establishment{
		Key:            krb5.Key{Enctype: krb5.AES128SHA256, Value: bytes.Repeat([]byte{7}, 16)},
		AcceptorSubkey: true, Acceptor: acceptor, Expires: time.Now().Add(time.Hour),
	})
	require.NoError(k.t, err)
	return c
}

func (k fakeKDC) Accept(context.Context, []byte, []byte) (gss.Accepted, error) {
	return gss.Accepted{Context: k.context(true), Token: []byte("answer"), Principal: gss.Principal{Name: []string{"host", "a"}, Realm: "R"}}, nil
}

func (k fakeKDC) Step(_ context.Context, answer []byte) ([]byte, gss.Context, error) {
	if answer == nil {
		return []byte("token"), nil, nil
	}
	return nil, k.context(false), nil
}

// Close does nothing.
func (k fakeKDC) Close() {}

// A handleReader is a Caller that records the handle of a created context.
type handleReader struct {
	next   oncrpc.Caller
	handle []byte
}

func (h *handleReader) Call(ctx context.Context, x *oncrpc.Exchange) error {
	err := h.next.Call(ctx, x)
	if h.handle == nil && err == nil {
		r := x.Results
		h.handle = bytes.Clone(r.Opaque(100))
	}
	return err
}

// TestCallbackContext checks that a version 4.1 client can offer its calls' security context
// for callbacks, but no context that does not exist.
func TestCallbackContext(t *testing.T) {
	mapped := func(context.Context, netip.Addr, gss.Principal) (rpcsec.User, bool, error) {
		return rpcsec.User{}, false, nil
	}
	r := startServer(t, ServerConfig{Exports: []nfsserver.Export{listedHosts(t, exports.Options{}, "*")}, Security: &rpcsec.ServerConfig{Acceptor: fakeKDC{t}, Map: mapped}})
	line, err := oncrpc.DialTCP(t.Context(), r.tcp, oncrpc.ClientConfig{})
	require.NoError(t, err)
	defer line.Close()
	next := &handleReader{next: line}
	c := rpcsec.NewClient(next, rpcsec.ClientConfig{
		Flavor: rpcmsg.AuthKrb5p, Prog: nfs4.Program, Vers: nfs4.Version,
		Begin: func(context.Context, []byte) (gss.Initiator, error) { return fakeKDC{t}, nil },
	})
	compound := func(op nfs4.Op, args, res nfs4.Message) {
		t.Helper()
		head := nfs4.CompoundArgs{Minor: nfs4.Minor1, N: 1}
		x := oncrpc.Exchange{
			Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound,
			Args: nfs4.AppendOp(head.AppendTo(nil), op, args), MaxResults: 4096,
		}
		require.NoError(t, c.Call(t.Context(), &x))
		defer x.Release()
		var done nfs4.CompoundRes
		done.Decode(&x.Results)
		require.Equal(t, op, nfs4.Op(x.Results.Uint32()))
		res.Decode(&x.Results)
		require.NoError(t, x.Results.Done())
	}
	var id nfs4.ExchangeIDRes
	compound(nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("owner")}, &id)
	require.Equal(t, nfs4.OK, id.Status)
	channel := nfs4.ChannelAttrs{MaxRequestSize: 4096, MaxResponseSize: 4096, MaxOperations: 4, MaxRequests: 4}
	for i, handle := range [][]byte{make([]byte, len(next.handle)), next.handle} {
		var res nfs4.CreateSessionRes
		compound(nfs4.OpCreateSession, &nfs4.CreateSessionArgs{
			ClientID: id.ClientID, Sequence: id.SequenceID + uint32(i), Fore: channel, Back: channel, Flags: nfs4.SessionConnBackChan,
			SecParms: nfs4.SecParms{Handles: []nfs4.CallbackHandles{{Service: 3, FromServer: handle, FromClient: []byte("client's")}}},
		}, &res)
		assert.Equal(t, []nfs4.Status{nfs4.ErrNoEnt, nfs4.OK}[i], res.Status)
	}
}
