package mountinfo

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestAutomounts checks which mounts wait to be triggered, and which have been.
func TestAutomounts(t *testing.T) {
	var list []Mount
	for _, line := range []string{
		"1 1 8:1 / / rw - ext4 /dev/sda1 rw",
		"2 1 0:30 / /direct rw - autofs systemd-1 rw,fd=35,pgrp=1,timeout=0,minproto=5,maxproto=5,direct,pipe_ino=123",
		"3 1 0:31 / /indirect rw - autofs auto.home rw,fd=5,indirect",
		"4 3 8:2 / /indirect/home rw - ext4 /dev/sda2 rw",
		"5 1 0:32 / /on rw - autofs systemd-1 rw,direct",
		"6 5 8:3 / /on rw - ext4 /dev/sda3 rw",
		"7 6 8:4 / /on rw - ext4 /dev/sda4 rw",
		`8 1 0:33 / /new\012line rw - autofs auto.x rw,fd=5,offset`,
	} {
		m, ok := parseLine(line + "\n")
		require.True(t, ok, line)
		list = append(list, m)
	}
	got := make(map[string][3]bool)
	for _, m := range Below(list, []string{"/"})[0] {
		got[m.Point] = [3]bool{m.IsAutomount, m.IsTriggered, m.HasFiles()}
	}
	assert.Equal(t, map[string][3]bool{
		"/direct": {true, false, true}, "/indirect": {false, false, false}, "/indirect/home": {false, false, true}, "/on": {false, true, true},
		"/new\nline": {true, false, true},
	}, got)
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
