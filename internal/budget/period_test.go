package budget

import (
	"testing"
	"time"
)

func TestAPeriodIsANameOrALength(t *testing.T) {
	for _, s := range []struct {
		p    Period
		want time.Duration
	}{
		{"second", time.Second}, {"10m", 10 * time.Minute}, {"5h", 5 * time.Hour}, {"90s", 90 * time.Second}, {"7d", 7 * 24 * time.Hour}, {"366d", LongestPeriod},
		{"day", 0}, {"quarter", 0}, {"year", 0}, {"", 0}, {"0h", 0}, {"05h", 0}, {"-5h", 0}, {"+5h", 0}, {"5", 0}, {"h", 0}, {"5w", 0}, {"1.5h", 0}, {"5h30m", 0}, {"367d", 0}, {"99999999999h", 0},
	} {
		if got := s.p.Length(); got != s.want {
			t.Errorf("%q: got %v, want %v", s.p, got, s.want)
		}
	}
}

func TestALengthIsABucketUpToAnHourAndAWindowBeyond(t *testing.T) {
	for p, want := range map[Period]Algorithm{"10m": TokenBucket, "60m": TokenBucket, "61m": SlidingWindow, "5h": SlidingWindow, "7d": SlidingWindow, Quarter: CalendarUsage, Year: CalendarUsage} {
		l := Limit{Name: "l", Unit: Tokens, Amount: 1000, Period: p}.WithDefaults()
		if l.Algorithm != want {
			t.Errorf("%s: got %s, want %s", p, l.Algorithm, want)
		}
		if err := Validate(&l); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestQuartersAndYears(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, berlin) }
	for _, s := range []struct {
		p          Period
		reset      int
		at         time.Time
		start, end time.Time
	}{
		{Quarter, 1, day(2026, 5, 20), day(2026, 4, 1), day(2026, 7, 1)},
		{Quarter, 1, day(2026, 4, 1), day(2026, 4, 1), day(2026, 7, 1)},
		{Quarter, 1, day(2026, 12, 31), day(2026, 10, 1), day(2027, 1, 1)},
		{Quarter, 15, day(2026, 1, 14), day(2025, 10, 15), day(2026, 1, 15)},
		{Quarter, 31, day(2026, 4, 29), day(2026, 1, 31), day(2026, 4, 30)},
		{Year, 1, day(2026, 12, 31), day(2026, 1, 1), day(2027, 1, 1)},
		{Year, 10, day(2026, 1, 9), day(2025, 1, 10), day(2026, 1, 10)},
	} {
		l := &Limit{Period: s.p, Location: berlin, ResetDay: s.reset}
		if start, end := PeriodAt(l, s.at); !start.Equal(s.start) || !end.Equal(s.end) {
			t.Errorf("%s from day %d at %v: got %v to %v, want %v to %v", s.p, s.reset, s.at, start, end, s.start, s.end)
		}
	}
}
