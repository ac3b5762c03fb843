package krb5

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/gss"
)

// TestAuthenticators checks both bounds, and whose authenticator is forgotten.
func TestAuthenticators(t *testing.T) {
	a := newAuthenticators(5, 3)
	client := func(name string) gss.Principal { return gss.Principal{Name: []string{name}, Realm: "R"} }
	add := func(name string, n int) novelty {
		return a.add(fmt.Append(nil, name, n), client(name), testTime.Add(time.Duration(n)*time.Second))
	}
	for n := range 4 {
		assert.Equal(t, novel, add("alice", n))
	}
	assert.Len(t, a.seen, 3, "her share")
	assert.Equal(t, replayed, add("alice", 3))
	assert.Equal(t, novel, add("alice", 0), "her oldest was forgotten")
	assert.Equal(t, replayed, add("alice", 2))

	assert.Equal(t, novel, add("bob", 4))
	assert.Equal(t, novel, add("bob", 5))
	assert.Equal(t, noPlace, add("carol", 6), "all places are taken")
	assert.Equal(t, novel, add("bob", 6), "in the place of his oldest")
	assert.Equal(t, novel, add("bob", 4))
	assert.Equal(t, replayed, add("alice", 2), "hers are untouched")
	assert.Len(t, a.seen, 5)

	assert.Equal(t, novel, a.add([]byte("late"), client("carol"), testTime.Add(2*Skew+time.Hour)))
	assert.Len(t, a.seen, 1, "all others have ended")
	assert.Len(t, a.clients, 1)
	assert.Equal(t, 1, a.order.Len())
}

// TestAuthenticatorsOfRealms checks that clients of one name in two realms, and
// names whose components could be one, have shares of their own.
func TestAuthenticatorsOfRealms(t *testing.T) {
	a := newAuthenticators(10, 1)
	for i, p := range []gss.Principal{
		{Name: []string{"alice"}, Realm: "A"},
		{Name: []string{"alice"}, Realm: "B"},
		{Name: []string{"alice", "x"}, Realm: "A"},
	} {
		assert.Equal(t, novel, a.add([]byte{byte(i)}, p, testTime))
	}
	assert.Len(t, a.seen, 3)
}
