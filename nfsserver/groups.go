package nfsserver

import (
	"context"
	"errors"
	"log/slog"
	"os/user"
	"strconv"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/lookupcache"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// identify sets q.cred to in whose name the call is done. It may wait where the
// server's own word on a user's groups counts; the error is that there is none.
func (q *request) identify(ctx context.Context, o *exports.Options) error {
	q.cred = squash(o, &q.call.Cred, q.groups[:0])
	lookup := q.server.groups
	if lookup == nil || o.AllSquash || q.call.Cred.Flavor != rpcmsg.AuthSys {
		return nil
	}
	// The superuser of a client that has become somebody else here is not in
	// the groups of this host's.
	if q.cred.UID != q.call.Cred.UID {
		q.cred.Groups = nil
		return nil
	}
	gids, err := lookup(ctx, q.cred.UID)
	if err != nil {
		return err
	}
	q.groups = mapGroups(o, gids, q.groups[:0])
	q.cred.Groups = q.groups
	return nil
}

// UserGroups remembers which groups the users of this host are in, for
// Config.Groups. It may be used by many goroutines at once.
type UserGroups struct {
	lookup  func(uid uint32) ([]uint32, error)
	looking chan struct{} // has an element for each lookup, given up or not
	answers *lookupcache.Answers[uint32, []uint32]
}

// NewUserGroups returns a UserGroups that asks lookup, or the host's user database
// if that is nil. An error that is a user.UnknownUserIdError means a user who is in
// no group. log is told of others; nil means none.
func NewUserGroups(lookup func(uid uint32) ([]uint32, error), log *slog.Logger) *UserGroups {
	if lookup == nil {
		lookup = hostGroups
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := &UserGroups{lookup: lookup, looking: make(chan struct{}, maxGroupLookups)}
	g.answers = lookupcache.New(lookupcache.Config[uint32, []uint32]{
		Ask: g.ask,
		Failed: func(uid uint32, err error) {
			log.Warn("the user database does not answer: users whose groups are not known yet have to wait", "uid", uid, "err", err)
		},
		Limits: lookupcache.Limits{
			Time: groupsTime, AtOnce: maxGroupWaits, Kept: maxGroupLists,
			Fresh: groupsFresh, None: groupsFresh, Fail: groupsFail, Stale: groupsStale,
		},
	})
	return g
}

// Of returns the groups of a user, which nobody may change; none for a user whom
// this host does not know.
func (g *UserGroups) Of(ctx context.Context, uid uint32) ([]uint32, error) {
	return g.answers.Of(ctx, uid)
}

// Close ends it. No groups are known from then on.
func (g *UserGroups) Close() { g.answers.Close() }

// ask asks for a user's groups. What the host asks for them, some server perhaps,
// may hang and cannot be called off, so it is left behind when ctx ends.
func (g *UserGroups) ask(ctx context.Context, uid uint32) (gids []uint32, none bool, err error) {
	select {
	case g.looking <- struct{}{}:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	done := make(chan struct{})
	var found []uint32
	var failed error
	go func() {
		found, failed = g.lookup(uid)
		<-g.looking
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

// hostGroups asks the user database of this host.
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
