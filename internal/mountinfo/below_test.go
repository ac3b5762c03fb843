package mountinfo

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestBelow checks which mounts belong to which directories.
func TestBelow(t *testing.T) {
	list := []Mount{
		{ID: 1, Parent: 1, Point: "/"},
		{ID: 2, Parent: 1, Point: "/srv"},
		{ID: 3, Parent: 2, Point: "/srv/b"},
		{ID: 4, Parent: 2, Point: "/srv/a/deep"},
		{ID: 5, Parent: 3, Point: "/srv/b/inner"},
		{ID: 6, Parent: 1, Point: "/srv2"},
		{ID: 7, Parent: 3, Point: "/srv/b"}, // on top of 3, and so hides 5
		{ID: 8, Parent: 7, Point: "/srv/b/new"},
		{ID: 9, Parent: 1, Point: "/srv/hidden"}, // in the directory that 2 covers
	}
	below := func(dirs ...string) (points [][]string) {
		for _, mounts := range Below(list, dirs) {
			points = append(points, Points(mounts))
		}
		return points
	}
	assert.Equal(t, [][]string{{"/srv/a/deep", "/srv/b", "/srv/b/new"}}, below("/srv"))
	assert.Equal(t, [][]string{{"/srv/a/deep"}, {"/srv/b/new"}}, below("/srv", "/srv/b"), "the lowest directory has them")
	assert.Equal(t, [][]string{nil, {"/srv", "/srv/a/deep", "/srv/b", "/srv/b/new", "/srv2"}}, below("/sr", "/"))
	assert.Equal(t, uint64(7), Below(list, []string{"/srv"})[0][1].ID, "the topmost mount of two")
	assert.Equal(t, [][]string{nil}, below(""), "an unknown directory")
	moved := append([]Mount{{ID: 2, Parent: 3, Point: "/srv"}}, Mount{ID: 1, Parent: 1, Point: "/"}, Mount{ID: 3, Parent: 1, Point: "/srv"})
	assert.Equal(t, []Mount{moved[0]}, Below(moved, []string{"/"})[0], "an older mount that was moved there")
	assert.Empty(t, Below(list, nil))
}

// TestHasFiles checks which file systems can have files to share.
func TestHasFiles(t *testing.T) {
	for kind, want := range map[string]bool{"ext4": true, "tmpfs": true, "fuse.sshfs": true, "proc": false, "autofs": false} {
		m := Mount{Kind: kind}
		assert.Equal(t, want, m.HasFiles(), kind)
	}
}

// TestSummary checks that a long list is cut.
func TestSummary(t *testing.T) {
	list := []Mount{{Point: "/1"}, {Point: "/2"}, {Point: "/3"}, {Point: "/4"}, {Point: "/5"}, {Point: "/6"}}
	assert.Equal(t, "/1, /2, /3, /4 and 2 more", Summary(list))
	assert.Equal(t, "/1, /2, /3, /4", Summary(list[:4]))
}
