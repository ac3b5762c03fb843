package idmap

import (
	"context"
	"errors"
	"os/user"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeGetent returns getent's output by its arguments. Others are unknown.
func fakeGetent(texts map[string]string) hostDatabase {
	return hostDatabase{run: func(_ context.Context, program string, args ...string) ([]byte, int, error) {
		text, ok := texts[strings.Join(args, " ")]
		switch {
		case program != "getent":
			return nil, 0, errors.New("another program")
		case !ok:
			return nil, notFound, nil
		case text == "broken":
			return nil, 3, nil
		}
		return []byte(text), 0, nil
	}}
}

// TestHostAnswers checks that a reply counts only for the name that was looked up,
// and that an invalid reply is an error.
func TestHostAnswers(t *testing.T) {
	h := fakeGetent(map[string]string{
		"passwd alice": "alice:x:1000:100:Alice:/home/alice:/bin/sh\n", "initgroups alice": "alice                 100 27 1000\n",
		"passwd ALICE": "alice:x:1000:100::/:/bin/sh\n",
		"passwd bob":   "bobby:x:0:0::/:/bin/sh\n",
		"passwd lone":  "lone:x:7:8::/:/bin/sh\n", "initgroups lone": "lone\n",
		"passwd max":   "max:x:4294967295:0::/:/bin/sh\n",
		"passwd text":  "text:x:zero:0::/:/bin/sh\n",
		"passwd short": "short:x:1\n",
		"passwd other": "other:x:9:9::/:/bin/sh\n", "initgroups other": "root 0\n",
		"passwd down": "broken",
		"passwd 1000": "alice:x:1000:100::/:/bin/sh\n",
		"passwd 5":    "5:x:6:6::/:/bin/sh\n",
		"group staff": "staff:x:50:alice\n", "group 50": "staff:x:50:\n", "group wheel": "root:x:0:\n",
	})
	for name, want := range map[string]Account{
		"alice": {UID: 1000, GID: 100, Groups: []uint32{100, 27, 1000}},
		"ALICE": {UID: 1000, GID: 100, Groups: []uint32{100, 27, 1000}},
		"lone":  {UID: 7, GID: 8, Groups: []uint32{8}},
	} {
		u, found, err := h.User(name)
		require.NoError(t, err, name)
		assert.True(t, found, name)
		assert.Equal(t, want, u, name)
	}
	for _, name := range []string{"bob", "nobody-here"} {
		_, found, err := h.User(name)
		assert.NoError(t, err, name)
		assert.False(t, found, name)
		_, found, err = h.ID(User, name)
		assert.NoError(t, err, name)
		assert.False(t, found, name)
	}
	for _, name := range []string{"max", "text", "short", "other", "down"} {
		u, found, err := h.User(name)
		assert.Error(t, err, name)
		assert.False(t, found, name)
		assert.Zero(t, u, name)
	}
	id, found, err := h.ID(Group, "staff")
	assert.Equal(t, []any{uint32(50), true, nil}, []any{id, found, err})
	_, found, err = h.ID(Group, "wheel")
	assert.Equal(t, []any{false, nil}, []any{found, err})
	name, found, err := h.Name(User, 1000)
	assert.Equal(t, []any{"alice", true, nil}, []any{name, found, err})
	name, found, err = h.Name(Group, 50)
	assert.Equal(t, []any{"staff", true, nil}, []any{name, found, err})
	_, found, err = h.Name(User, 5)
	assert.Equal(t, []any{false, nil}, []any{found, err}, "a user with a number for a name")
}

// TestHostUser queries this host's getent for the process's user, with its groups.
func TestHostUser(t *testing.T) {
	me, err := user.Current()
	require.NoError(t, err)
	u, found, err := newHost().User(me.Username)
	require.NoError(t, err)
	require.True(t, found)
	id, err := parseID(me.Uid)
	require.NoError(t, err)
	assert.Equal(t, id, u.UID)
	assert.Contains(t, u.Groups, u.GID)
	_, found, err = newHost().User("no-such-user")
	assert.NoError(t, err)
	assert.False(t, found)
}

// TestRunBounds checks that a program is ended when the time is over, and that its
// output and its environment are bounded.
func TestRunBounds(t *testing.T) {
	t.Setenv("KRB5CCNAME", "/tmp/x")
	out, status, err := runProgram(t.Context(), "sh", "-c", "pwd; echo $KRB5CCNAME; exit 7")
	require.NoError(t, err)
	assert.Equal(t, 7, status)
	assert.Equal(t, "/\n\n", string(out))
	_, _, err = runProgram(t.Context(), "sh", "-c", "yes")
	assert.Error(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = runProgram(ctx, "sleep", "60")
	assert.Error(t, err)
	_, _, err = runProgram(t.Context(), "no-such-program-here")
	assert.Error(t, err)
}
