package conformance

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const requirements = "id\tlevel\twho\ttext\n" +
	"X1-1-1\tMUST\tboth\tDo a | b.\n" +
	"X1-1-10\tMUST NOT\tsender\tDo\tthat.\n" +
	"X2-1.2-A1-1\trule\treceiver\tBe.\n"

const tests = `package ddp

import "testing"

// rows show X1-1-1.
var rows = []struct{ name, hdr string }{
	{"too short", "a"},
	{"X1-1-10 too long, by far", "b"}, // more
	{"golden.hex", "c"}, // X2-1.2-A1-1 at the end
}

func helper(t *testing.T) { _ = "X1-1-1" }

// TestRows uses the table.
func TestRows(t *testing.T) { for range rows { t.Run("made", nil) } }

func TestMap(t *testing.T) {
	for range map[string]int{
		"one": 1, // X1-1-1
		"two": 2, // X1-1-10
	} {
	}
	t.Run("call of Run", func(t *testing.T) {
		_ = 0 // X1-1-1
	})
}

// TestDoc shows X1-1-10.
func TestDoc(t *testing.T) {}

func TestHelped(t *testing.T) { helper(t) }

func TestNothing(t *testing.T) { TestDoc(t) }

func TestFar(t *testing.T) { _ = far; new(peer).ask() }
`

const helpers = `package ddp

// far shows X1-1-1.
var far = 1

type peer int

func (p *peer) ask() {} // X1-1-10

func ask() {} // X2-1.2-A1-1
`

func testModule(entries string) fstest.MapFS {
	return fstest.MapFS{
		"docs/requirements.tsv":              {Data: []byte(requirements)},
		"docs/conformance/README.md":         {Data: []byte("# Conformance\n\n- [X](x.md)\n")},
		"docs/conformance/x.md":              {Data: []byte("# X\n\nProse.\n\n" + entries)},
		"rdma/iwarp/ddp/rows_test.go":        {Data: []byte(tests)},
		"rdma/iwarp/ddp/helpers_test.go":     {Data: []byte(helpers)},
		"rdma/iwarp/ddp/testdata/no_test.go": {Data: []byte("no Go")},
		"internal/deep/er/other_test.go":     {Data: []byte("//go:build interop\n\npackage er\n\nfunc FuzzX(f int) {} // X2-1.2-A1-1\n")},
	}
}

func TestCheck(t *testing.T) {
	res, err := Check(testModule("- X1-1-1: `rdma/iwarp/ddp.TestRows`\n"+
		"- X1-1-10: `rdma/iwarp/ddp.TestRows/X1-1-10_too_long,_by_far`,\n  `rdma/iwarp/ddp.TestDoc`; a note\n"+
		"- X2-1.2-A1-1: n/a; not applicable\n  here\n"), "")
	require.NoError(t, err)
	assert.Equal(t, Result{Entries: 3, Tested: 2, NA: 1}, res)
}

func TestCheckOneDocument(t *testing.T) {
	fsys := testModule("- X1-1-1: `nonsense`\n- X2-1.2-A1-1: `internal/deep/er.FuzzX`\n")
	res, err := Check(fsys, "X2")
	require.NoError(t, err)
	assert.Equal(t, Result{Entries: 1, Tested: 1}, res)
	res, err = Check(fsys, "X3")
	require.NoError(t, err)
	assert.Equal(t, []string{"docs/requirements.tsv: no requirement of X3"}, res.Faults)
}

// TestSeveralFiles checks that the order of the requirements counts within a
// file, an id has one entry in all files, and the index links to each file.
func TestSeveralFiles(t *testing.T) {
	fsys := testModule("- X2-1.2-A1-1: n/a; a reason\n")
	fsys["docs/conformance/y.md"] = &fstest.MapFile{Data: []byte("- X1-1-1: n/a; a reason\n- X1-1-10: n/a; a reason\n- X2-1.2-A1-1: n/a; twice\n")}
	res, err := Check(fsys, "")
	require.NoError(t, err)
	assert.Equal(t, []string{
		"docs/conformance/README.md: no link to y.md",
		"docs/conformance/y.md:3: X2-1.2-A1-1 has an entry already, at docs/conformance/x.md:5",
	}, res.Faults)
}

// TestFaults checks that all faults are reported, each with its place.
func TestFaults(t *testing.T) {
	res, err := Check(testModule("- X2-1.2-A1-1: n/a\n"+
		"- X1-1-10:\n"+
		"- X1-1-10: n/a; twice\n"+
		"- X1-1-11: n/a; unknown\n"+
		"- X1-1-12: rdma/iwarp/ddp.TestRows\n"), "")
	require.NoError(t, err)
	const none = " names no test: write `package/path.TestName`, ... or n/a, and perhaps a semicolon and a note"
	assert.Equal(t, []string{
		"docs/conformance/x.md:5: X2-1.2-A1-1 is n/a without a reason: write the reason after a semicolon",
		"docs/conformance/x.md:6: X1-1-10" + none,
		"docs/conformance/x.md:9: X1-1-12" + none,
		"docs/conformance/x.md:6: X1-1-10 comes after X2-1.2-A1-1: keep the order of docs/requirements.tsv",
		"docs/conformance/x.md:7: X1-1-10 has an entry already, at docs/conformance/x.md:6",
		"docs/conformance/x.md:8: X1-1-11 is not in docs/requirements.tsv",
		"docs/conformance/x.md:9: X1-1-12 is not in docs/requirements.tsv",
		"docs/conformance: no entry for X1-1-1 (MUST, both): Do a | b.",
	}, res.Faults)
}

func TestShows(t *testing.T) {
	const (
		lacks = "does not contain the id"
		none  = "no "
	)
	for _, tt := range []struct{ test, id, want string }{
		{"rdma/iwarp/ddp.TestRows", "X1-1-1", ""},
		{"rdma/iwarp/ddp.TestRows", "X2-1.2-A1-1", ""},
		{"rdma/iwarp/ddp.TestRows", "X1-1", lacks},
		{"rdma/iwarp/ddp.TestRows/too_short", "X1-1-1", lacks},
		{"rdma/iwarp/ddp.TestRows/X1-1-10_too_long,_by_far", "X1-1-10", ""},
		{"rdma/iwarp/ddp.TestRows/X1-1-10_too_long,_by_far", "X1-1-1", lacks},
		{"rdma/iwarp/ddp.TestRows/golden.hex", "X2-1.2-A1-1", ""},
		{"rdma/iwarp/ddp.TestRows/nosuch", "X1-1-1", "no subtest"},
		{"rdma/iwarp/ddp.TestMap/one", "X1-1-1", ""},
		{"rdma/iwarp/ddp.TestMap/one", "X1-1-10", lacks},
		{"rdma/iwarp/ddp.TestMap/call_of_Run", "X1-1-1", ""},
		{"rdma/iwarp/ddp.TestDoc", "X1-1-10", ""},
		{"rdma/iwarp/ddp.TestDoc", "X1-1-1", lacks},
		{"rdma/iwarp/ddp.TestHelped", "X1-1-1", ""},
		{"rdma/iwarp/ddp.TestNothing", "X1-1-10", lacks},
		{"rdma/iwarp/ddp.TestFar", "X1-1-1", ""},
		{"rdma/iwarp/ddp.TestFar", "X1-1-10", ""},
		{"rdma/iwarp/ddp.TestFar", "X2-1.2-A1-1", lacks},
		{"internal/deep/er.FuzzX", "X2-1.2-A1-1", ""},
		{"rdma/iwarp/ddp.TestNosuch", "X1-1-1", none},
		{"iwarp/nosuch.TestRows", "X1-1-1", none},
		{"TestRows", "X1-1-1", "not the name of a test"},
		{"rdma/iwarp/ddp.helper", "X1-1-1", "not the name of a test"},
	} {
		c := checker{fsys: testModule(""), dirs: make(map[string]*testPackage)}
		fault, err := c.checkClaim(tt.test, tt.id)
		require.NoError(t, err)
		if tt.want == "" {
			assert.Empty(t, fault, tt.test)
		} else {
			assert.Contains(t, fault, tt.want, tt.test)
		}
	}
}

func TestUnreadable(t *testing.T) {
	fsys := testModule("- X1-1-1: `rdma/iwarp/ddp.TestRows`\n")
	fsys["rdma/iwarp/ddp/broken_test.go"] = &fstest.MapFile{Data: []byte("package ddp\nfunc {")}
	_, err := Check(fsys, "X1")
	assert.ErrorContains(t, err, "rdma/iwarp/ddp/broken_test.go:2")
	delete(fsys, "docs/conformance/README.md")
	_, err = Check(fsys, "")
	assert.ErrorContains(t, err, "docs/conformance/README.md")
	delete(fsys, "docs/requirements.tsv")
	_, err = Check(fsys, "")
	assert.ErrorContains(t, err, "docs/requirements.tsv")
}

func TestParseRequirements(t *testing.T) {
	reqs, faults := parseRequirements(requirements + "X3-1-1\tMUST\n" + "X1-1-1\tMUST\tboth\tAgain.\n")
	assert.Equal(t, []requirement{
		{"X1-1-1", "MUST", "both", "Do a | b."},
		{"X1-1-10", "MUST NOT", "sender", "Do\tthat."},
		{"X2-1.2-A1-1", "rule", "receiver", "Be."},
	}, reqs)
	assert.Equal(t, []string{
		"docs/requirements.tsv:5: 2 fields: write id, level, subject and text, separated by tabs",
		"docs/requirements.tsv:6: X1-1-1 is listed twice: remove one",
	}, faults)
}

func TestContains(t *testing.T) {
	for text, want := range map[string]bool{
		"R5041-4.1-1":               true,
		"see R5041-4.1-1.":          true,
		"(R5041-4.1-1, R5041-4.1-2": true,
		"R5041-4.1-1_name":          true,
		"R5041-4.1-10":              false,
		"R5041-4.1-1-1":             false,
		"R5041-4.1":                 false,
		"XR5041-4.1-1":              false,
	} {
		assert.Equal(t, want, containsID(text, "R5041-4.1-1"), text)
	}
}

// ExampleResult shows the text of a fault.
func ExampleResult() {
	res, err := Check(testModule("- X1-1-1: `rdma/iwarp/ddp.TestDoc`\n- X1-1-10: `rdma/iwarp/ddp.TestGone`\n"), "X1")
	fmt.Println(strings.Join(res.Faults, "\n"), err)
	// Output:
	// docs/conformance/x.md:5: X1-1-1: the source of rdma/iwarp/ddp.TestDoc does not contain the id: write it next to the assertion
	// docs/conformance/x.md:6: X1-1-10: no TestGone in the tests of rdma/iwarp/ddp <nil>
}
