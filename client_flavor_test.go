package nfsrdma

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestChoose checks which flavor a mount uses: with Sec, the first in Sec that the export
// lists, so that AUTH_SYS never replaces a required Kerberos flavor; without Sec, the
// first in the export's list that this host can use (R2623-2.7-1).
func TestChoose(t *testing.T) {
	const sys, krb5, krb5i, krb5p = rpcmsg.AuthSys, rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p
	type list = []uint32
	noTicket, noHelper := &tickets.Error{User: "root", Reason: wire.NoTicket, Text: "no ticket"}, errors.New("no helper")
	can := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for _, tt := range []struct {
		sec      list
		kerberos func(context.Context) error
		wanted   list
		want     uint32
		words    string
	}{
		{list{krb5p, sys}, nil, list{sys, krb5p}, krb5p, ""},
		{list{krb5p, sys}, can(noTicket), list{sys, krb5p}, krb5p, ""},
		{list{sys, krb5p}, nil, list{krb5p, sys}, sys, ""},
		{list{krb5p, krb5i}, nil, list{krb5, krb5i}, krb5i, ""},
		{list{krb5p, sys}, nil, nil, krb5p, ""},
		{list{krb5p, krb5i}, nil, list{sys, krb5}, 0, "the export /x wants sys, krb5; the mount says sec=krb5p:krb5i"},

		{nil, can(nil), list{krb5p, sys}, krb5p, ""},
		{nil, can(nil), list{0, krb5i, krb5p}, krb5i, ""},
		{nil, can(nil), list{sys, krb5p}, sys, ""},
		{nil, can(nil), nil, sys, ""},
		{nil, can(noTicket), list{krb5, krb5p, sys}, sys, ""},
		{nil, can(noTicket), list{krb5p, krb5}, krb5p, ""}, // users may have tickets
		{nil, can(noHelper), list{krb5, sys}, sys, ""},
		{nil, can(noHelper), list{krb5}, 0, "the export /x wants krb5; the mount says sec=sys: no helper"},
		{nil, nil, list{krb5, sys}, sys, ""},
		{nil, nil, list{krb5, krb5p}, 0, "the export /x wants krb5, krb5p; the mount says sec=sys"},
		{nil, can(nil), list{0}, 0, "the export /x wants none; the mount says sec=sys"},
	} {
		c := &Client{cfg: ClientConfig{Sec: tt.sec, Kerberos: tt.kerberos, NFS: nfsclient.Config{Cred: &rpcmsg.Cred{Flavor: sys}}}}
		got, err := c.chooseFlavor(t.Context(), "/x", tt.wanted)
		assert.Equal(t, tt.want, got, "%+v", tt)
		if tt.words == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, tt.words)
		}
	}
}
