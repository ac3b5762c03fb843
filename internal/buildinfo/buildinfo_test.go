package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestLine checks that the linker's version has precedence, and that a build
// without one names its commit.
func TestLine(t *testing.T) {
	machine := " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	build := func(settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123abcd"}
	for _, tt := range []struct {
		name, version string
		info          *debug.BuildInfo
		want          string
	}{
		{"the linker's", "v1.0.0", build(revision), "p v1.0.0" + machine},
		{"no build information", "", nil, "p unknown" + machine},
		{"no repository", "", build(), "p v0.2.0" + machine},
		{"a commit", "", build(revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "p v0.2.0" + machine + " commit 0123abcd"},
		{"changed files", "", build(revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "p v0.2.0" + machine + " commit 0123abcd-dirty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, formatLine("p", tt.version, tt.info))
		})
	}
}
