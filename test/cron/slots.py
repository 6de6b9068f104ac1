#!/usr/bin/env python3
"""The expected slots of test/pgtap/f30_cron.sql, found another way.

Prints test/pgtap/include/f30_slots.sql.  Nothing here is shared with the
extension: zones are those of Python's zoneinfo, an expression is a set of
values for each field, and every minute is looked at, one after the other.
With --random N it prints N random cases in place of the list below.

    python3 test/cron/slots.py > test/pgtap/include/f30_slots.sql
"""
import random
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

UTC = timezone.utc
MINUTE = timedelta(minutes=1)
NAMES = {name: i + 1 for i, name in enumerate(
    'jan feb mar apr may jun jul aug sep oct nov dec'.split())}
DAYS = {name: i for i, name in enumerate('sun mon tue wed thu fri sat'.split())}
WORDS = {'@yearly': '0 0 1 1 *', '@annually': '0 0 1 1 *', '@monthly': '0 0 1 * *',
         '@weekly': '0 0 * * 0', '@daily': '0 0 * * *', '@midnight': '0 0 * * *',
         '@hourly': '0 * * * *'}

# name, expression, zone, after, how many
CASES = [
    # the calendar
    ('every minute', '* * * * *', 'UTC', '2026-01-31 23:58:30+00', 3),
    ('every five minutes', '*/5 * * * *', 'UTC', '2026-01-31 23:52:00+00', 4),
    ('exactly at a slot', '30 4 * * *', 'UTC', '2026-05-05 04:30:00+00', 2),
    ('a second before one', '30 4 * * *', 'UTC', '2026-05-05 04:29:59+00', 2),
    ('a step from a range', '10-40/15 8-18/5 * * *', 'UTC', '2026-05-05 00:00+00', 8),
    ('a list', '0,15,45 6,18 * * *', 'UTC', '2026-05-05 06:15+00', 5),
    ('day 31', '0 0 31 * *', 'UTC', '2026-01-01 00:00+00', 7),
    ('day 30', '15 12 30 * *', 'UTC', '2026-01-30 12:15+00', 4),
    ('Feb 29', '0 0 29 2 *', 'UTC', '2021-01-01 00:00+00', 3),
    ('Feb 29, across 2100', '0 0 29 2 *', 'UTC', '2096-01-01 00:00+00', 3),
    ('the last days of months', '59 23 28-31 * *', 'UTC', '2026-02-01 00:00+00', 7),
    ('the last day of the month', '0 3 L * *', 'UTC', '2026-01-31 03:00+00', 5),
    ('the last day of February', '0 3 $ 2 *', 'UTC', '2027-01-01 00:00+00', 3),
    ('the last day and the 15th', '0 0 15,l * *', 'Europe/Berlin', '2026-02-01 00:00+00', 4),
    ('the last day, or a Monday', '0 0 L * mon', 'UTC', '2026-05-20 00:00+00', 4),
    ('the last day if a day of the week begins with an asterisk', '0 0 L * */6', 'UTC', '2026-01-01 00:00+00', 3),
    ('Apia: the last day comes after one that was skipped', '0 12 L * *', 'Pacific/Apia', '2011-12-01 00:00+00', 2),
    ('the turn of the year', '59 23 31 12 *', 'UTC', '2026-06-01 00:00+00', 2),
    ('months by name', '0 9 1 jan,jul *', 'UTC', '2026-03-01 00:00+00', 3),
    ('months in capitals', '0 9 1 OCT-Dec *', 'UTC', '2026-03-01 00:00+00', 4),
    ('quarters', '0 0 1 */3 *', 'UTC', '2026-03-01 00:00+00', 4),
    ('weekdays', '30 8 * * mon-fri', 'UTC', '2026-05-07 09:00+00', 4),
    ('weekend across Sunday', '30 8 * * sat-sun', 'UTC', '2026-05-07 09:00+00', 4),
    ('Sunday is 0', '0 12 * * 0', 'UTC', '2026-05-05 00:00+00', 2),
    ('Sunday is 7', '0 12 * * 7', 'UTC', '2026-05-05 00:00+00', 2),
    ('Friday to Sunday', '0 12 * * 5-7', 'UTC', '2026-05-05 00:00+00', 4),
    ('every second day of the week', '0 12 * * 1-7/2', 'UTC', '2026-05-05 00:00+00', 5),
    ('yearly', '@yearly', 'UTC', '2026-05-05 00:00+00', 2),
    ('annually', '@annually', 'UTC', '2026-05-05 00:00+00', 1),
    ('monthly', '@monthly', 'UTC', '2026-11-05 00:00+00', 3),
    ('weekly', '@weekly', 'UTC', '2026-05-05 00:00+00', 2),
    ('daily', '@daily', 'Europe/Berlin', '2026-03-28 00:00+00', 3),
    ('midnight', '@Midnight', 'America/New_York', '2026-05-05 00:00+00', 2),
    ('hourly', '@hourly', 'UTC', '2026-05-05 22:10+00', 3),

    # day of month and day of week
    ('either', '0 0 13 * fri', 'UTC', '2026-02-01 00:00+00', 8),
    ('either, with lists', '0 0 1,15 * mon', 'UTC', '2026-05-01 00:00+00', 7),
    ('both, with a step of days', '0 0 */2 * sun', 'UTC', '2026-05-01 00:00+00', 5),
    ('both, with a step of weekdays', '0 0 13 * */5', 'UTC', '2026-01-01 00:00+00', 4),
    ('any weekday by a step of one', '0 0 10 * */1', 'UTC', '2026-01-01 00:00+00', 3),
    ('a day that there is not, or a Sunday', '0 0 30 2 sun', 'UTC', '2026-01-01 00:00+00', 5),

    # spring forward: New York has no 2:00 to 2:59 on 2026-03-08
    ('New York: 2:30 in the gap', '30 2 * * *', 'America/New_York', '2026-03-07 00:00+00', 4),
    ('New York: the beginning of the gap', '0 2 * * *', 'America/New_York', '2026-03-07 12:00+00', 3),
    ('New York: the end of the gap', '0 3 * * *', 'America/New_York', '2026-03-07 12:00+00', 3),
    ('New York: before the gap', '59 1 * * *', 'America/New_York', '2026-03-07 12:00+00', 3),
    ('New York: gap and end are one', '0 2,3 * * *', 'America/New_York', '2026-03-08 05:00+00', 3),
    ('New York: many in the gap are one', '*/10 2 * * *', 'America/New_York', '2026-03-08 05:00+00', 3),
    ('New York: every hour', '30 * * * *', 'America/New_York', '2026-03-08 05:00+00', 4),
    ('New York: every hour 2', '0 */2 * * *', 'America/New_York', '2026-03-08 04:00+00', 4),
    ('New York: every quarter', '*/15 * * * *', 'America/New_York', '2026-03-08 06:40+00', 4),
    ('New York: in the gap of one year only', '30 2 8 3 *', 'America/New_York', '2025-06-01 00:00+00', 2),
    ('New York: a Sunday at 2:30', '30 2 * * sun', 'America/New_York', '2026-03-02 00:00+00', 3),
    ('New York: the gap has just ended', '30 2 * * *', 'America/New_York', '2026-03-08 07:00+00', 2),

    # fall back: New York has 1:00 to 1:59 twice on 2026-11-01
    ('New York: 1:30 twice', '30 1 * * *', 'America/New_York', '2026-10-31 00:00+00', 4),
    ('New York: between the two', '30 1 * * *', 'America/New_York', '2026-11-01 05:30+00', 2),
    ('New York: in the second', '45 1 * * *', 'America/New_York', '2026-11-01 06:10+00', 2),
    ('New York: when it goes back', '0 1 * * *', 'America/New_York', '2026-10-31 12:00+00', 3),
    ('New York: 2:00, which comes once', '0 2 * * *', 'America/New_York', '2026-10-31 12:00+00', 3),
    ('New York: many of the hour', '*/20 1 * * *', 'America/New_York', '2026-11-01 00:00+00', 5),
    ('New York: every hour, both', '30 * * * *', 'America/New_York', '2026-11-01 04:00+00', 4),
    ('New York: every minute, both', '58-59,0 * * * *', 'America/New_York', '2026-11-01 05:50+00', 6),
    ('New York: range of hours', '0 0-3 * * *', 'America/New_York', '2026-11-01 00:00+00', 6),

    # half an hour: Lord Howe, back on 2026-04-05, forward on 2026-10-04
    ('Lord Howe: 1:45 twice', '45 1 * * *', 'Australia/Lord_Howe', '2026-04-03 00:00+00', 4),
    ('Lord Howe: 1:15 comes once', '15 1 * * *', 'Australia/Lord_Howe', '2026-04-03 00:00+00', 4),
    ('Lord Howe: every hour, both', '45 * * * *', 'Australia/Lord_Howe', '2026-04-04 13:00+00', 4),
    ('Lord Howe: 2:15 in the gap', '15 2 * * *', 'Australia/Lord_Howe', '2026-10-02 00:00+00', 3),
    ('Lord Howe: 2:45 is not', '45 2 * * *', 'Australia/Lord_Howe', '2026-10-02 00:00+00', 3),
    ('Lord Howe: every quarter', '*/15 * * * *', 'Australia/Lord_Howe', '2026-10-03 15:00+00', 5),

    # other zones
    ('London: 1:30 in the gap', '30 1 * * *', 'Europe/London', '2026-03-28 12:00+00', 2),
    ('London: 1:30 twice', '30 1 * * *', 'Europe/London', '2026-10-24 12:00+00', 2),
    ('Berlin: 2:30 in the gap', '30 2 * * *', 'Europe/Berlin', '2026-03-28 12:00+00', 2),
    ('Berlin: 2:30 twice', '30 2 * * *', 'Europe/Berlin', '2026-10-24 12:00+00', 2),
    ('Sao Paulo: midnight in the gap', '0 0 * * *', 'America/Sao_Paulo', '2018-11-03 12:00+00', 3),
    ('Sao Paulo: the day begins at one', '30 0 4 11 *', 'America/Sao_Paulo', '2018-06-01 00:00+00', 1),
    ('Sao Paulo: 23:30 twice', '30 23 * * *', 'America/Sao_Paulo', '2019-02-16 12:00+00', 2),
    ('Kathmandu: a quarter off', '0 9 * * *', 'Asia/Kathmandu', '2026-05-05 00:00+00', 2),
    ('Kolkata: half an hour off', '0 0 1 * *', 'Asia/Kolkata', '2026-05-05 00:00+00', 2),
    ('Chatham: 2:50 in the gap', '50 2 * * *', 'Pacific/Chatham', '2026-09-25 00:00+00', 3),
    ('Apia: a day that was skipped', '0 12 * * *', 'Pacific/Apia', '2011-12-28 00:00+00', 4),
    ('Apia: and its hours', '0 */6 * * *', 'Pacific/Apia', '2011-12-30 00:00+00', 5),
    ('Apia: only that day', '0 12 30 12 *', 'Pacific/Apia', '2011-06-01 00:00+00', 2),
    ('Caracas: half an hour forward', '45 2 * * *', 'America/Caracas', '2016-04-30 00:00+00', 3),
    ('Pyongyang: half an hour forward', '45 23 4 5 *', 'Asia/Pyongyang', '2018-01-01 00:00+00', 1),
    ('Casablanca: Ramadan', '30 2 * * *', 'Africa/Casablanca', '2026-02-14 00:00+00', 3),
    ('Troll: two hours', '30 1 * * *', 'Antarctica/Troll', '2026-03-28 00:00+00', 3),
    ('Troll: two hours back', '30 1,2 * * *', 'Antarctica/Troll', '2026-10-24 12:00+00', 4),
    ('Etc/GMT-14', '0 0 * * *', 'Etc/GMT-14', '2026-05-05 00:00+00', 2),
    ('far west', '0 0 * * *', 'Etc/GMT+12', '2026-05-05 00:00+00', 2),
]


def values(text, low, high, names):
    found = set()
    for item in text.lower().split(','):
        span, _, step = item.partition('/')
        first, _, last = span.partition('-')
        if span == '*':
            a, b = low, high
        else:
            a = names[first] if first in names else int(first)
            b = names[last] if last in names else int(last) if last else a
            if names is DAYS and b == 0 and a > 0:
                b = 7
        found |= set(range(a, b + 1, int(step or 1)))
    return found


class Cron:
    def __init__(self, text):
        f = WORDS.get(text.lower(), text).split()
        self.minutes = values(f[0], 0, 59, {})
        self.hours = values(f[1], 0, 23, {})
        days = f[2].lower().replace('l', '$').split(',')
        self.last = '$' in days
        days = ','.join(day for day in days if day != '$')
        self.days = values(days, 1, 31, {}) if days else set()
        self.months = values(f[3], 1, 12, NAMES)
        self.weekdays = {d % 7 for d in values(f[4], 0, 7, DAYS)}
        self.both = f[2][0] == '*' or f[4][0] == '*'
        self.elapsed = f[1][0] == '*'

    def has_day(self, t):
        day = t.day in self.days or self.last and (t + timedelta(days=1)).day == 1
        weekday = t.isoweekday() % 7 in self.weekdays
        return t.month in self.months and (day and weekday if self.both else day or weekday)

    def has(self, t):
        return t.minute in self.minutes and t.hour in self.hours and self.has_day(t)


def local(instant, zone):
    return instant.astimezone(zone).replace(tzinfo=None)


def instant_of(naive, zone):
    """The first instant with that local time, or the first after the gap."""
    for fold in (0, 1):
        instant = naive.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if local(instant, zone) == naive:
            return instant
    instant = naive.replace(tzinfo=UTC) - timedelta(days=2)
    while local(instant, zone) < naive:
        instant += MINUTE
    return instant


def slots(cron, zone, after, count):
    found = []
    if cron.elapsed:
        t = after.replace(second=0, microsecond=0) + MINUTE
        while len(found) < count:
            if cron.has(local(t, zone)):
                found.append(t)
                t += MINUTE
            elif cron.has_day(local(t, zone)):
                t += MINUTE
            else:
                # no zone goes back by more than a day
                t += timedelta(minutes=1 if local(t, zone).hour > 20 else 15)
        return found
    t = local(after, zone).replace(second=0) - timedelta(days=2)
    while len(found) < count:
        if not cron.has_day(t):
            t = (t + timedelta(days=1)).replace(hour=0, minute=0)
            continue
        if cron.has(t):
            instant = instant_of(t, zone)
            if instant > after and instant not in found:
                found.append(instant)
        t += MINUTE
    return found


def random_field(low, high, star):
    def value():
        return random.randint(low, high)
    def item():
        kind = random.random()
        if kind < 0.2:
            return '*/%d' % random.randint(1, high - low + 1)
        if kind < 0.5:
            a, b = sorted((value(), value()))
            return '%d-%d' % (a, b) + ('/%d' % random.randint(1, 5) if random.random() < 0.4 else '')
        return str(value())
    if random.random() < star:
        return '*'
    return ','.join(item() for _ in range(random.choice((1, 1, 1, 2, 3))))


def random_case(i):
    zone, day = random.choice([
        ('America/New_York', '2026-03-08'), ('America/New_York', '2026-11-01'), ('Australia/Lord_Howe', '2026-04-05'),
        ('Australia/Lord_Howe', '2026-10-04'), ('Europe/Berlin', '2026-03-29'), ('Europe/Berlin', '2026-10-25'),
        ('America/Sao_Paulo', '2018-11-04'), ('America/Sao_Paulo', '2019-02-17'), ('Pacific/Apia', '2011-12-30'),
        ('Antarctica/Troll', '2026-03-29'), ('Antarctica/Troll', '2026-10-25'), ('Pacific/Chatham', '2026-09-27')])
    after = datetime.fromisoformat(day + ' 00:00+00:00') + timedelta(seconds=random.randint(-86400 * 2, 86400))
    cron = ' '.join((random_field(0, 59, 0.2), random_field(0, 23, 0.3) if random.random() < 0.5 else
                     random.choice(('0', '1', '2', '3', '1-3', '*/2', '0-2', '23,0', '*')),
                     random_field(1, 28, 0.6), random_field(1, 12, 0.9), random_field(0, 7, 0.6)))
    return 'random %d' % i, cron, zone, after.isoformat(' '), 5


def main():
    cases = CASES
    if len(sys.argv) > 2 and sys.argv[1] == '--random':
        cases = [random_case(i) for i in range(int(sys.argv[2]))]
    print('-- Printed by test/cron/slots.py: do not edit.')
    print('INSERT INTO expected (name, cron, zone, after, slots) VALUES')
    rows = []
    for name, cron, zone, after, count in cases:
        # Python before 3.11 knows no +00
        at = datetime.fromisoformat(after[:-3] + '+00:00' if after.endswith('+00') else after)
        found = slots(Cron(cron), ZoneInfo(zone), at, count)
        rows.append("\t('%s', '%s', '%s', '%s',\n\t\t'{%s}')" % (
            name, cron, zone, after, ','.join(t.strftime('%Y-%m-%d %H:%M:%S+00') for t in found)))
    print(',\n'.join(rows) + ';')


main()
