package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
)

// Leases of delegation counters. A client increments its counter three times in
// one lease. A lease longer than some minutes would delay conflicting calls too
// long.
const (
	defaultLease = 10 * time.Second
	minLease     = 100 * time.Millisecond
	minLease4    = 10 * time.Second // clients renew a lease after a part of it, and a call may take seconds
	maxLease     = delegserver.MaxLease
)

// givenBack returns a context that ends after ctx has ended and the clients
// have returned their delegations, or the keeper has stopped waiting for them.
// The caller must call end.
func (p *operations) givenBack(ctx context.Context) (_ context.Context, end func()) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		p.grants.Drain()
		cancel()
	})
	return later, func() {
		stop()
		cancel()
	}
}

// grantsDoc describes the delegations that clients hold by delegation counters,
// and held.
type grantsDoc struct {
	LeaseSeconds float64 `json:"lease_seconds"`
	WaitSeconds  float64 `json:"wait_seconds"` // until changes are made
	InForce      int     `json:"in_force"`
	Granted      uint64  `json:"granted"`
	Refused      uint64  `json:"refused"`
	Recalled     uint64  `json:"recalled"`
	Returned     uint64  `json:"returned"`
	Reclaimed    uint64  `json:"reclaimed"`
	Late         uint64  `json:"late"`
	Silent       uint64  `json:"silent"`
	Cut          uint64  `json:"cut"`

	RefusedBy map[string]uint64 `json:"refused_by"` // by reason
	Parties   map[string]int    `json:"parties"`    // grants in force, by address
}

// lookAtGrants returns the state of the keeper, or nil with --no-extensions.
func lookAtGrants(k *delegserver.Keeper) *grantsDoc {
	if k == nil {
		return nil
	}
	s := k.Stats()
	refused := make(map[string]uint64)
	for why, n := range k.Refusals() {
		refused[why.String()] = n
	}
	return &grantsDoc{
		RefusedBy: refused, Parties: k.Parties(),
		LeaseSeconds: k.Lease().Seconds(), WaitSeconds: k.Left().Seconds(), InForce: s.InForce, Granted: s.Granted, Refused: s.Refused, Recalled: s.Recalled,
		Returned: s.Returned, Reclaimed: s.Reclaimed, Late: s.Late, Silent: s.Silent, Cut: s.Cut,
	}
}

// String returns a line of status.
func (g *grantsDoc) String() string {
	refused := strconv.FormatUint(g.Refused, 10) + " refused"
	if len(g.RefusedBy) > 0 {
		var by []string
		for _, why := range slices.Sorted(maps.Keys(g.RefusedBy)) {
			by = append(by, fmt.Sprintf("%s %d", why, g.RefusedBy[why]))
		}
		refused += " (" + strings.Join(by, ", ") + ")"
	}
	text := fmt.Sprintf("%d grants in force%s; %d granted, %s, %d recalled, %d returned, %d reclaimed",
		g.InForce, g.most(), g.Granted, refused, g.Recalled, g.Returned, g.Reclaimed)
	for _, n := range []struct {
		count uint64
		what  string
	}{{g.Late, "recalls unanswered"}, {g.Silent, "leases run out"}, {g.Cut, "connections cut"}} {
		if n.count > 0 {
			text += fmt.Sprintf(", %d %s", n.count, n.what)
		}
	}
	if g.WaitSeconds > 0 {
		text += fmt.Sprintf("; changes wait for another %s, because clients may hold delegations of the daemon before this one",
			short(time.Duration(g.WaitSeconds*float64(time.Second))))
	}
	return text
}

// largest returns the address with the most grants, and their number.
func (g *grantsDoc) largest() (address string, grants int) {
	for a, n := range g.Parties {
		if n > grants || n == grants && a < address {
			address, grants = a, n
		}
	}
	return address, grants
}

// most names the address with the most grants, if there are several.
func (g *grantsDoc) most() string {
	address, n := g.largest()
	if len(g.Parties) < 2 || n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s has %d)", address, n)
}

// events emits the counts by event.
func (g *grantsDoc) events(emit emitter) {
	for event, n := range map[string]uint64{
		"granted": g.Granted, "refused": g.Refused, "recalled": g.Recalled, "returned": g.Returned,
		"reclaimed": g.Reclaimed, "late": g.Late, "silent": g.Silent, "cut": g.Cut,
	} {
		emit(float64(n), event)
	}
}
