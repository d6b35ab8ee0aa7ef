package books

import (
	"math"
	"testing"
	"time"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }

// monday is noon of a Monday.
var monday = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// historyOf is what was spent on the days before monday, by a rule.
func historyOf(days int, spent func(day time.Weekday, ago int) float64) History {
	h := make(History, days)
	for i := range h {
		ago := days - i
		h[i] = spent(monday.AddDate(0, 0, -ago).Weekday(), ago)
	}
	return h
}

func TestASteadyBudgetGoesOnAsItWas(t *testing.T) {
	h := historyOf(28, func(time.Weekday, int) float64 { return 10 })
	end := time.Date(2026, 12, 5, 0, 0, 0, 0, time.UTC) // 4.5 days
	o := Project(h, monday, end, 100, 130)
	if !near(o.Rate, 10) || !near(o.Expected, 145) || !near(o.Low, 145) || !near(o.High, 145) {
		t.Errorf("got %+v, want 145 for sure", o)
	}
	if want := monday.AddDate(0, 0, 3); o.SpentAt == nil || !o.SpentAt.Equal(want) {
		t.Errorf("spent at %v, want %v", o.SpentAt, want)
	}
	if o := Project(h, monday, end, 100, 200); o.SpentAt != nil {
		t.Errorf("spent at %v, want never", o.SpentAt)
	}
	if o := Project(h, monday, end, 200, 200); o.SpentAt == nil || !o.SpentAt.Equal(monday) {
		t.Errorf("spent at %v, want now", o.SpentAt)
	}
}

func TestWeekdaysHaveTheirPattern(t *testing.T) {
	h := historyOf(28, func(day time.Weekday, _ int) float64 {
		if day == time.Saturday || day == time.Sunday {
			return 0
		}
		return 14
	})
	end := time.Date(2026, 12, 7, 0, 0, 0, 0, time.UTC) // half of Monday, four days, a weekend
	if o := Project(h, monday, end, 0, 1000); !near(o.Expected, 14*4.5) {
		t.Errorf("got %v, want %v", o.Expected, 14*4.5)
	}
}

func TestATrendGoesOnWithinBounds(t *testing.T) {
	grows := historyOf(28, func(_ time.Weekday, ago int) float64 {
		if ago > 7 {
			return 10
		}
		return 15
	})
	end := monday.AddDate(0, 0, 28)
	o := Project(grows, monday, end, 0, 1e9)
	if o.Expected < 15*28 || o.Expected > 2*15*28 {
		t.Errorf("got %v, want more than the last week's and less than twice of it", o.Expected)
	}
}

func TestTheRangeIsWhatTheLastDaysWereWrongBy(t *testing.T) {
	wild := historyOf(28, func(_ time.Weekday, ago int) float64 { return float64(10 + 8*(ago%2)) })
	o := Project(wild, monday, monday.AddDate(0, 0, 9), 50, 1e9)
	if !(o.Low < o.Expected && o.Expected < o.High && o.Low >= 50) {
		t.Errorf("got %+v, want a range around what is expected, and no less than what is spent", o)
	}
}

func TestWithoutHistoryTodaysRateGoesOn(t *testing.T) {
	o := Project(nil, monday, monday.AddDate(0, 0, 1), 12, 1e9)
	if !near(o.Rate, 24) || !near(o.Expected, 36) || !near(o.Low, 12) || !near(o.High, 60) {
		t.Errorf("got %+v", o)
	}
	early := Project(nil, monday.Add(-12*time.Hour), monday, 1, 1e9)
	if math.IsInf(early.Expected, 0) || early.Rate > 24 {
		t.Errorf("at midnight: got %+v", early)
	}
}
