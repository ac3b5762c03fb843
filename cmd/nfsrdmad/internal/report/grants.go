package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
)

// Grants counts the delegations with delegation counters, since the daemon started.
type Grants struct {
	LeaseSeconds float64 `json:"lease_seconds"`
	WaitSeconds  float64 `json:"wait_seconds"` // how long changes must still wait
	InForce      int     `json:"in_force"`
	Granted      uint64  `json:"granted"`
	Refused      uint64  `json:"refused"`
	Recalled     uint64  `json:"recalled"`
	Returned     uint64  `json:"returned"`
	Reclaimed    uint64  `json:"reclaimed"`
	Late         uint64  `json:"late"`
	Silent       uint64  `json:"silent"`
	Cut          uint64  `json:"cut"`

	RefusedBy map[string]uint64 `json:"refused_by"` // refusals by reason
	Parties   map[string]int    `json:"parties"`    // grants in force, by address
}

// newGrants describes a Keeper, which is nil with --no-extensions. wait is how long changes must
// still wait. newGrants returns nil if there is neither.
func newGrants(k *delegserver.Keeper, wait time.Duration) *Grants {
	if k == nil && wait == 0 {
		return nil
	}
	s := k.Stats()
	refused := make(map[string]uint64)
	for why, n := range k.Refusals() {
		refused[why.String()] = n
	}
	return &Grants{
		RefusedBy: refused, Parties: k.Parties(),
		LeaseSeconds: k.Lease().Seconds(), WaitSeconds: wait.Seconds(), InForce: s.InForce, Granted: s.Granted, Refused: s.Refused, Recalled: s.Recalled,
		Returned: s.Returned, Reclaimed: s.Reclaimed, Late: s.Late, Silent: s.Silent, Cut: s.Cut,
	}
}

// String returns a line for status.
func (g *Grants) String() string {
	refused := strconv.FormatUint(g.Refused, 10) + " refused"
	if len(g.RefusedBy) > 0 {
		var by []string
		for _, why := range slices.Sorted(maps.Keys(g.RefusedBy)) {
			by = append(by, fmt.Sprintf("%s %d", why, g.RefusedBy[why]))
		}
		refused += " (" + strings.Join(by, ", ") + ")"
	}
	text := fmt.Sprintf("%d grants in force%s; %d granted, %s, %d recalled, %d returned, %d reclaimed",
		g.InForce, g.describeLargest(), g.Granted, refused, g.Recalled, g.Returned, g.Reclaimed)
	for _, n := range []struct {
		count uint64
		what  string
	}{{g.Late, "recalls unanswered"}, {g.Silent, "leases expired"}, {g.Cut, "connections closed"}} {
		if n.count > 0 {
			text += fmt.Sprintf(", %d %s", n.count, n.what)
		}
	}
	if g.WaitSeconds > 0 {
		text += fmt.Sprintf("; changes wait for another %s, because clients may hold delegations from before the restart",
			formatDuration(time.Duration(g.WaitSeconds*float64(time.Second))))
	}
	return text
}

// largestHolder returns the address with the most grants, and their number.
func (g *Grants) largestHolder() (address string, grants int) {
	for a, n := range g.Parties {
		if n > grants || n == grants && a < address {
			address, grants = a, n
		}
	}
	return address, grants
}

// describeLargest names the address with the most grants, if there are several addresses.
func (g *Grants) describeLargest() string {
	address, n := g.largestHolder()
	if len(g.Parties) < 2 || n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s has %d)", address, n)
}

// emitEvents emits the counts by event.
func (g *Grants) emitEvents(emit emitFunc) {
	for event, n := range map[string]uint64{
		"granted": g.Granted, "refused": g.Refused, "recalled": g.Recalled, "returned": g.Returned,
		"reclaimed": g.Reclaimed, "late": g.Late, "silent": g.Silent, "cut": g.Cut,
	} {
		emit(float64(n), event)
	}
}
