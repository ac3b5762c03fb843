package exportset

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os/user"
	"strconv"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/internal/lookupcache"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// identifyCaller sets q.Cred to the identity for the call. It may wait if the user's groups on
// the server replace the caller's; an error means that they are unavailable.
func (q *Request) identifyCaller(ctx context.Context, o *exports.Options) error {
	if q.caller.Unknown && !o.AllSquash {
		return errUnknownUser
	}
	q.Cred = squashCred(o, q.caller, q.groups[:0])
	if cap(q.Cred.Groups) > cap(q.groups) {
		q.groups = q.Cred.Groups // memory for the next call: a verified user may have many
	}
	lookup := q.set.groups
	if lookup == nil || o.AllSquash || q.caller.Flavor != rpcmsg.AuthSys {
		return nil
	}
	// If a client's superuser was mapped to another user, it is not in that user's groups on
	// this host.
	if q.Cred.UID != q.caller.UID {
		q.Cred.Groups = nil
		return nil
	}
	gids, err := lookup(ctx, addrOf(q.peer), q.Cred.UID)
	if err != nil {
		return err
	}
	q.groups = mapGroups(o, gids, q.groups[:0])
	q.Cred.Groups = q.groups
	return nil
}

// errUnknownUser reports that a verified caller's user is unknown at present.
var errUnknownUser = errors.New("exportset: the caller's user is currently unknown")

// UserGroups caches the groups of this host's users, for Config.Groups. It is safe for
// concurrent use.
type UserGroups struct {
	lookup  func(uid uint32) ([]uint32, error)
	lookups *fairshare.Places // running lookups, abandoned or not
	answers *lookupcache.Answers[fairshare.Name, uint32, []uint32]
}

// NewUserGroups returns a UserGroups that calls lookup, or uses the host's user database if
// lookup is nil. A user.UnknownUserIdError means that the user is in no group. Other errors are
// written to log; nil means no log.
func NewUserGroups(lookup func(uid uint32) ([]uint32, error), log *slog.Logger) *UserGroups {
	if lookup == nil {
		lookup = hostGroups
	}
	log = lograte.Logger(log) // clients decide how many queries there are
	g := &UserGroups{lookup: lookup, lookups: fairshare.NewPlaces(maxGroupLookups)}
	waits := fairshare.NewPlaces(maxGroupWaits)
	g.answers = lookupcache.New(lookupcache.Config[fairshare.Name, uint32, []uint32]{
		Ask: g.lookUpGroups,
		Failed: func(uid uint32, err error) {
			log.Warn("user database does not respond; calls from users with unknown groups wait; check the host's user database", "uid", uid, "err", err)
		},
		Take: waits.Take,
		Give: waits.Give,
		Limits: lookupcache.Limits{
			Time: groupLookupTimeout, AtOnce: maxGroupWaits, Kept: maxGroupLists,
			Fresh: groupFreshTime, None: groupFreshTime, Fail: groupRetryTime, Stale: groupStaleTime,
		},
	})
	return g
}

// Of returns a user's groups, which must not be changed, or none for a user unknown to this
// host. The requesting client gets only a share of the lookups, together with the other clients
// at its address.
func (g *UserGroups) Of(ctx context.Context, client netip.Addr, uid uint32) ([]uint32, error) {
	return g.answers.Of(ctx, fairshare.PartyOfIP(client), uid)
}

// Close stops the lookups. Of fails afterwards.
func (g *UserGroups) Close() { g.answers.Close() }

// lookUpGroups looks up a user's groups. The lookup may depend on a remote server, may hang and
// cannot be canceled, so it is abandoned when ctx ends.
func (g *UserGroups) lookUpGroups(ctx context.Context, party fairshare.Name, uid uint32) (gids []uint32, none bool, err error) {
	if err := g.lookups.Acquire(ctx, party); err != nil {
		return nil, false, err
	}
	done := make(chan struct{})
	var found []uint32
	var failed error
	go func() {
		found, failed = g.lookup(uid)
		g.lookups.Give(party)
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	if _, unknown := errors.AsType[user.UnknownUserIdError](failed); unknown {
		return nil, true, nil
	}
	return found, false, failed
}

// hostGroups queries this host's user database.
func hostGroups(uid uint32) ([]uint32, error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil, err
	}
	words, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	gids := make([]uint32, 0, len(words))
	for _, w := range words {
		gid, err := strconv.ParseUint(w, 10, 32)
		if err != nil {
			return nil, err
		}
		gids = append(gids, uint32(gid))
	}
	return gids, nil
}
