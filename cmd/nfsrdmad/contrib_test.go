package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestContrib checks that the alerts and the dashboard name only metrics that exist,
// and labels that these have.
func TestContrib(t *testing.T) {
	all := describedMetrics(t)
	name := regexp.MustCompile(`\bnfsrdma_[a-z0-9_]+`)
	label := regexp.MustCompile(`\b(nfsrdma_[a-z0-9_]+)\{([^}]*)\}`)
	for _, file := range []string{"prometheus/nfsrdma.rules.yml", "prometheus/nfsrdma.test.yml", "grafana/nfsrdma.json"} {
		b, err := os.ReadFile("../../contrib/" + file)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(b), `\"`, `"`)
		names := name.FindAllString(text, -1)
		require.NotEmpty(t, names, file)
		for _, n := range names {
			_, ok := all[baseMetricName(n)]
			assert.True(t, ok, "%s: no metric is named %s", file, n)
		}
		for _, m := range label.FindAllStringSubmatch(text, -1) {
			known := append(strings.Split(all[baseMetricName(m[1])], ","), "job", "instance", "le")
			for _, pair := range strings.Split(m[2], ",") {
				key, _, _ := strings.Cut(pair, "=")
				assert.Contains(t, known, strings.TrimSpace(key), "%s: %s", file, m[0])
			}
		}
		if strings.HasSuffix(file, ".json") {
			assert.True(t, json.Valid(b))
		}
	}
}

// TestDashboard checks each panel of the dashboard: that its expressions sum by labels
// that their metrics have, and that the legends name labels which are left.
func TestDashboard(t *testing.T) {
	all := describedMetrics(t)
	b, err := os.ReadFile("../../contrib/grafana/nfsrdma.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(b, &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	name := regexp.MustCompile(`\bnfsrdma_[a-z0-9_]+`)
	by := regexp.MustCompile(`\b(?:sum|max|min|avg|count) ?(?:by ?\(([^)]*)\))? ?\(`)
	legend := regexp.MustCompile(`\{\{ *([a-z_]+) *\}\}`)
	ids := make(map[int]bool)
	for _, p := range dashboard.Panels {
		assert.False(t, ids[p.ID], "%s: another panel has this id", p.Title)
		ids[p.ID] = true
		for _, target := range p.Targets {
			metric := name.FindString(target.Expr)
			require.NotEmpty(t, metric, "%s: %s", p.Title, target.Expr)
			left := append(strings.Split(all[baseMetricName(metric)], ","), "job", "instance", "le")
			for _, m := range by.FindAllStringSubmatch(target.Expr, -1) {
				var kept []string
				for _, l := range strings.Split(m[1], ",") {
					if l = strings.TrimSpace(l); l != "" {
						assert.Contains(t, left, l, "%s: %s", p.Title, target.Expr)
						kept = append(kept, l)
					}
				}
				left = kept
			}
			for _, m := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Contains(t, left, m[1], "%s: legend %s", p.Title, target.LegendFormat)
			}
		}
	}
}

// baseMetricName returns the name of a histogram without the parts that Prometheus adds.
func baseMetricName(n string) string {
	for _, base := range []string{"nfsrdma_rpc_duration_seconds", "nfsrdma_export_duration_seconds"} {
		if strings.HasPrefix(n, base) {
			return base
		}
	}
	return n
}
